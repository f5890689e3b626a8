"""How far things are: a running job, read from the tail of the records that its probe appends, and reading of files.

Standard library only.
"""

from __future__ import annotations

import math
import os
import shutil
import struct
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepscope.render.format import counted, progress, reading

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Pace", "Reading", "Reporter", "read_pace"]

_HEADER = struct.Struct("<16sII16xq")  # magic, header size, record size, number of records
_MAGIC = b"STEPSCOPE-STEPS1"
_FIELDS = struct.Struct("<qqqq")  # step, start, end, data_wait: the fields of a record that are read here
_RECENT = 50  # steps that the pace is of: enough to smooth, few enough to follow a change
_LINES_AT = (5.0, 15.0, 30.0, 60.0)  # seconds after the start; then one a minute
_THEN_EVERY = 60.0
_PATIENCE = 0.7  # seconds that pass without a word while files are read
_REFRESH = 0.2  # seconds between two changes of a line
_CLEAR_LINE = "\r\x1b[K"  # wipes a progress bar that the job has left without an end of line


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The last step that ended, the mean length in ns of the recent ones, and the ratio of data wait (None: unseen)."""

    step: int
    step_ns: float
    data_wait: float | None


def read_pace(run_dir: str) -> Pace | None:
    """The pace of the first rank that has steps; None before the first step, or if nothing can be read."""
    try:
        folders = sorted(name for name in os.listdir(run_dir) if name.startswith("rank-"))
    except OSError:
        return None
    for folder in folders:
        try:
            with open(os.path.join(run_dir, folder, "steps.bin"), "rb") as file:
                pace = _pace(_tail(file.fileno()))
        except (OSError, struct.error):
            continue
        if pace:
            return pace
    return None


def _tail(descriptor: int) -> list[tuple[int, int, int, int]]:
    """step, start, end and data wait of the last whole records of a file."""
    magic, header, size, complete = _HEADER.unpack(os.pread(descriptor, _HEADER.size, 0))
    if magic != _MAGIC or size < _FIELDS.size:
        return []
    count = (os.fstat(descriptor).st_size - header) // size
    count = min(count, complete) if complete > 0 else count
    first = max(count - _RECENT, 0)
    data = os.pread(descriptor, (count - first) * size, header + first * size)
    records = [_FIELDS.unpack_from(data, offset) for offset in range(0, len(data) - size + 1, size)]
    return [record for record in records if record[2]]  # blanks that a step will fill have no end


def _pace(records: list[tuple[int, int, int, int]]) -> Pace | None:
    if not records:
        return None
    whole = sum(end - start for _, start, end, _ in records)
    watched = [(wait, end - start) for _, start, end, wait in records if wait >= 0]
    watched_time = sum(duration for _, duration in watched)
    wait = sum(wait for wait, _ in watched) / watched_time if watched_time > 0 else None
    return Pace(step=records[-1][0], step_ns=whole / len(records), data_wait=wait)


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
