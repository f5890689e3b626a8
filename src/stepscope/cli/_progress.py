"""How far things are, for a person: a running job, and reading of files.

Standard library only.
"""

from __future__ import annotations

import math
import shutil
import sys
import time
from typing import TYPE_CHECKING

from stepscope.observe.pace import read_pace
from stepscope.render.format import counted, progress, reading

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Reading", "Reporter"]

_LINES_AT = (5.0, 15.0, 30.0, 60.0)  # seconds after the start; then one a minute
_THEN_EVERY = 60.0
_PATIENCE = 0.7  # seconds that pass without a word while files are read
_REFRESH = 0.2  # seconds between two changes of a line
_CLEAR_LINE = "\r\x1b[K"  # wipes a progress bar that the job has left without an end of line


class Reporter:
    """Writes a line about the job's pace to stderr now and then, when `tick` is called about every second."""

    def __init__(self, run_dir: str, *, clear: bool) -> None:
        self._run_dir, self._clear = run_dir, _CLEAR_LINE if clear else ""
        self._began = time.monotonic()
        self._written = 0

    def tick(self) -> None:
        """Write a line if one is due and the job has made a step."""
        if time.monotonic() - self._began < self._due():
            return
        pace = read_pace(self._run_dir)
        if pace is None:
            return
        while time.monotonic() - self._began >= self._due():
            self._written += 1
        sys.stderr.write(f"{self._clear}stepscope: {progress(pace.step, pace.step_ns, pace.data_wait)}\n")
        sys.stderr.flush()

    def _due(self) -> float:
        if self._written < len(_LINES_AT):
            return _LINES_AT[self._written]
        return _LINES_AT[-1] + _THEN_EVERY * (self._written - len(_LINES_AT) + 1)


class Reading:
    """A line on stderr about the files being read, which is gone at the end; none where stderr is no terminal."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._next = self._began + _PATIENCE if sys.stderr.isatty() else math.inf
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()

    def file(self, size: int, whole: int, events: int) -> None:
        """Bytes of a trace that were read, its bytes in all, and events found so far."""
        self._show(counted(events, "event"), size, whole)

    def ranks(self, done: int, ranks: int, size: int, whole: int) -> None:
        """Ranks that were opened, of how many; their bytes, of how many."""
        self._show(f"{done} of {counted(ranks, 'rank')}", size, whole)

    def bytes(self, name: str, size: int, whole: int) -> None:
        """Bytes of a trace that were copied, and its bytes in all."""
        self._show(name, size, whole)

    def _show(self, what: str, size: int, whole: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _REFRESH
        self._shown = True
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(_CLEAR_LINE + f"reading {reading(what, size, whole, now - self._began)}"[:width])
        sys.stderr.flush()
