"""The processes that a process has started and that still run under it."""

from __future__ import annotations

import os
from pathlib import Path

TYPE_CHECKING = False  # the typing module costs milliseconds at start
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["children_of"]


def children_of(proc: Path | str = "/proc") -> Callable[[int], list[int]]:
    """How to find the children of a process here: the kernel's own list, else the parents that all processes name.

    `proc` is where the files of processes are. Children of any thread count.
    """
    folder = os.fspath(proc)
    if os.path.exists(os.path.join(folder, "self", "task", str(os.getpid()), "children")):
        return lambda pid: _listed(os.path.join(folder, str(pid), "task"))
    by_parent: dict[int, list[int]] = {}
    for name in os.listdir(folder):
        if name.isdigit():
            try:
                with open(os.path.join(folder, name, "stat"), "rb") as stat:
                    parent = int(stat.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            by_parent.setdefault(parent, []).append(int(name))
    return lambda pid: by_parent.get(pid, [])


def _listed(tasks: str) -> list[int]:
    children: list[int] = []
    try:
        for task in os.listdir(tasks):
            with open(os.path.join(tasks, task, "children"), encoding="ascii") as listed:
                children.extend(int(child) for child in listed.read().split())
    except (OSError, ValueError):
        return children  # it is just ending
    return children
