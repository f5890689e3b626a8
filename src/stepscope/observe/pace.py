"""How far a running job is, read from the tail of the records that its probe appends."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from stepscope.run_format.files import STEPS
from stepscope.run_format.records import HEADER, STEP

__all__ = ["Pace", "read_pace"]

_RECENT = 50  # steps that the pace is of: enough to smooth, few enough to follow a change


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The last step that ended, the mean length in ns of the recent ones, the ratio of data wait (None: unseen), and
    when that step ended, ns of the machine's monotonic clock."""

    step: int
    step_ns: float
    data_wait: float | None
    ended: int


def read_pace(run_dir: str) -> Pace | None:
    """The pace of the first rank that has steps; None before the first step, or if nothing can be read."""
    try:
        folders = sorted(name for name in os.listdir(run_dir) if name.startswith("rank-"))
    except OSError:
        return None
    for folder in folders:
        try:
            with open(os.path.join(run_dir, folder, STEPS), "rb") as file:
                pace = _pace(_tail(file.fileno()))
        except (OSError, struct.error):
            continue
        if pace:
            return pace
    return None


def _tail(descriptor: int) -> list[tuple[int, int, int, int]]:
    """step, start, end and data wait of the last whole records of a file."""
    magic, header, size, _, _, complete = HEADER.unpack(os.pread(descriptor, HEADER.size, 0))[:6]
    if magic != STEP.magic or size < STEP.struct.size:
        return []
    count = (os.fstat(descriptor).st_size - header) // size
    count = min(count, complete) if complete > 0 else count
    first = max(count - _RECENT, 0)
    data = os.pread(descriptor, (count - first) * size, header + first * size)
    records = [STEP.struct.unpack_from(data, offset)[:4] for offset in range(0, len(data) - size + 1, size)]
    return [record for record in records if record[2]]  # blanks that a step will fill have no end


def _pace(records: list[tuple[int, int, int, int]]) -> Pace | None:
    if not records:
        return None
    whole = sum(end - start for _, start, end, _ in records)
    watched = [(wait, end - start) for _, start, end, wait in records if wait >= 0]
    watched_time = sum(duration for _, duration in watched)
    wait = sum(wait for wait, _ in watched) / watched_time if watched_time > 0 else None
    return Pace(step=records[-1][0], step_ns=whole / len(records), data_wait=wait, ended=records[-1][2])
