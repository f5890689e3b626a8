"""Where the Python threads of running processes are, by py-spy: from outside, without a word in the job's own code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["StackFrame", "StackGroup", "Thread", "grouped", "is_python", "read_threads", "tool"]

_TIMEOUT_S = 60  # a process that a debugger holds never answers
_PACKAGES = re.compile(r".*/(?:site-packages|dist-packages|lib/python\d[\d.]*)/")
_NOT_OF_USER = re.compile(r"<|.*/bin/[^/]+$")  # made by Python, or a script that an installation made
_OURS = re.compile(r".*stepscope(: |/collect/)")  # frames of the probe, under whichever name


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A call that has not returned."""

    file: str
    line: int
    function: str

    @property
    def of_user(self) -> bool:
        """Whether it is of the job's own code, as far as its place tells."""
        return not (_PACKAGES.match(self.file) or _NOT_OF_USER.match(self.file) or _OURS.match(self.file))

    @property
    def short(self) -> str:
        """The file, from its package on if it is a library's."""
        return _PACKAGES.sub("", self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A thread with its calls, innermost first. `active`: it runs, or wants to."""

    pid: int
    name: str
    active: bool
    owns_gil: bool
    frames: tuple[StackFrame, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackGroup:
    """Threads of one name, of one process or several, that are at the same place."""

    name: str
    threads: tuple[Thread, ...]

    @property
    def frames(self) -> tuple[StackFrame, ...]:
        """The calls of each of them."""
        return self.threads[0].frames

    @property
    def own(self) -> StackFrame | None:
        """The innermost call of the job's own code, None where there is none."""
        return next((frame for frame in self.frames if frame.of_user), None)


def tool() -> str | None:
    """py-spy, beside this Python or on the path."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def is_python(pid: int) -> bool:
    """Whether a process runs Python, as its executable is called."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python")
    except OSError:
        return False


def read_threads(spy: str, pid: int) -> tuple[tuple[Thread, ...], str]:
    """The threads of a process, or none and why: it has ended, may not be looked at, or does not answer."""
    words = [spy, "dump", "--json", "--pid", str(pid)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return (), f"it did not answer for {_TIMEOUT_S} s"
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return (), (lines[-1] if lines else f"py-spy ended with {done.returncode}").removeprefix("Error: ")
    try:
        threads = (_thread(pid, row) for row in json.loads(done.stdout))
        return tuple(thread for thread in threads if thread.frames), ""  # one of the probe has none left
    except (ValueError, KeyError, TypeError) as error:
        return (), f"py-spy's answer cannot be read: {error}"


def grouped(threads: Iterable[Thread]) -> list[StackGroup]:
    """Threads at one place together, main threads first, then the largest groups."""
    groups: dict[tuple[str, tuple[StackFrame, ...]], list[Thread]] = {}
    for thread in threads:
        groups.setdefault((thread.name, thread.frames), []).append(thread)
    found = [StackGroup(name=name, threads=tuple(same)) for (name, _), same in groups.items()]
    return sorted(found, key=lambda group: (group.name != "MainThread", -len(group.threads), group.name))


def _thread(pid: int, row: dict[str, object]) -> Thread:
    calls = row["frames"]
    told = (StackFrame(str(call["filename"]), int(call["line"]), str(call["name"])) for call in calls)  # type: ignore[attr-defined]
    frames = tuple(frame for frame in told if not _OURS.match(frame.file))
    name = str(row.get("thread_name") or "a thread without a name")
    return Thread(pid=pid, name=name, active=bool(row["active"]), owns_gil=bool(row["owns_gil"]), frames=frames)
