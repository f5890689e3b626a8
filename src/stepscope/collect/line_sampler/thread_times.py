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

MOST_ROWS = 10_000
"""Rows, 2 MB, after which every second call is left out: three hours of one busy thread."""

BUSY = 0.02  # of a core: threads that only look after something take less


class ThreadTimes:
    """Reads /proc once a call. Tells a row of each busy thread and one of the training thread; nothing elsewhere."""

    def __init__(self, training: int, stack_of: Callable[[int], int | None]) -> None:
        self._training, self._stack_of = training, stack_of
        self._before: dict[int, tuple[int, int, int]] = {}
        self._calls = self._told = 0
        self._every = 1

    def rows(self) -> Iterator[dict[str, Any]]:
        """What the threads did since the last call: `thread`, `training`, `time`, `span`, `cpu` and `ready` in ns, and
        the stack that a busy one is at, or None. Nothing while all others rest."""
        self._calls += 1
        if self._calls % self._every:
            return
        active = getattr(
            sys.modules.get("threading"), "_active", {}
        )  # its own calls take a lock that a fork would keep
        before, self._before = self._before, {}
        if len(active) < 2:
            return
        told = [self._row(ident, thread, before) for ident, thread in list(active.items())[:MOST_THREADS]]
        rows = [row for row in told if row is not None]
        busy = [row for row in rows if not row["training"] and row["cpu"] >= BUSY * row["span"]]
        for row in rows:
            if busy and (row["training"] or row in busy):
                self._told += 1
                yield {**row, "stack": None if row["training"] else self._stack_of(row["ident"])}
        if self._told >= MOST_ROWS:
            self._told, self._every = 0, 2 * self._every

    def _row(self, ident: int, thread: Any, before: dict[int, tuple[int, int, int]]) -> dict[str, Any] | None:
        """None at first sight, of a thread that has ended, and of what only looks like a thread, as in gevent."""
        native = int(getattr(thread, "native_id", None) or 0)
        try:
            with open(f"/proc/self/task/{native}/schedstat", "rb") as file:
                cpu, ready = (int(figure) for figure in file.read().split()[:2])
        except (OSError, ValueError):
            return None
        now = time.monotonic_ns()
        self._before[native] = (now, cpu, ready)
        if native not in before:
            return None
        then, cpu_then, ready_then = before[native]
        told = {"ident": ident, "thread": str(thread.name), "training": ident == self._training}
        return {**told, "time": now, "span": now - then, "cpu": cpu - cpu_then, "ready": ready - ready_then}
