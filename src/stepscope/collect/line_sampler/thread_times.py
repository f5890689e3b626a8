"""CPU time of the job's Python threads, while one beside the training thread is at work: they share an interpreter."""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["ThreadTimes"]

MOST_THREADS = 16
"""Threads that are read: a job with more has a pool of them, of which any will do as an example."""

BUSY = 0.02  # of a core: threads that only look after something take less
NEVER = (0, 0, 0)


class ThreadTimes:
    """Reads /proc once a call. Tells a row of each busy thread and one of the training thread; nothing elsewhere."""

    def __init__(self, training: int, stack_of: Callable[[int], int | None]) -> None:
        self._training, self._stack_of = training, stack_of
        self._before: dict[int, tuple[int, int, int]] = {}

    def rows(self) -> Iterator[dict[str, Any]]:
        """What the threads did since the last call: `thread`, `training`, `time`, `span`, `cpu` and `ready` in ns, and
        the stack that a busy one is at, or None. Nothing while all others rest."""
        threading = sys.modules.get("threading")
        if threading is None or len(threading._active) < 2:
            return
        told = [self._row(ident, thread) for ident, thread in list(threading._active.items())[:MOST_THREADS]]
        rows = [row for row in told if row is not None]
        busy = [row for row in rows if not row["training"] and row["cpu"] >= BUSY * row["span"]]
        for row in rows:
            if busy and (row["training"] or row in busy):
                yield {**row, "stack": None if row["training"] else self._stack_of(row["ident"])}

    def _row(self, ident: int, thread: Any) -> dict[str, Any] | None:
        """None at first sight, and of a thread that has ended."""
        try:
            with open(f"/proc/self/task/{thread.native_id}/schedstat", "rb") as file:
                cpu, ready = (int(figure) for figure in file.read().split()[:2])
        except (OSError, ValueError):
            return None
        now = time.monotonic_ns()
        before, self._before[ident] = self._before.get(ident, NEVER), (now, cpu, ready)
        if before is NEVER:
            return None
        training = ident == self._training
        told = {"ident": ident, "thread": thread.name, "training": training, "time": now, "span": now - before[0]}
        return {**told, "cpu": cpu - before[1], "ready": ready - before[2]}
