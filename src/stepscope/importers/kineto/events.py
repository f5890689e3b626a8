"""Sort the events of a trace by the table they belong to, with exact times; outliers of time are told apart here."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.importers.kineto.columns import Event
from stepscope.importers.kineto.decimals import FARTHEST, nanoseconds
from stepscope.importers.kineto.source import Note

__all__ = [
    "DEVICE_KINDS", "FAR", "HOST_KINDS", "RANGES", "Ints", "Rows", "bulk", "ends", "finish", "is_near", "kind_named",
    "kind_of", "sort_events", "unread_because",
]  # fmt: skip

Ints = npt.NDArray[np.int64]
"""Times in ns, or positions."""

DAY = 86_400 * 10**9
"""Profiler windows last seconds, rarely minutes: what is a day away from the bulk of a trace has a broken time."""

HOST_KINDS = {
    "cpu_op": "operator",
    "operator": "operator",
    "user_annotation": "annotation",
    "python_function": "python",
    "python": "python",
    "overhead": "overhead",
    "runtime": "runtime",
    "cuda_runtime": "runtime",
    "mtia_runtime": "runtime",
    "glow_runtime": "runtime",
    "xpu_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "cuda_driver": "driver",
    "xpu_driver": "driver",
    "privateuse1_driver": "driver",
}
"""Categories of host events in lower case, of the writers of 2021 and of today."""

DEVICE_KINDS = {
    "kernel": "kernel",
    "hpu_op": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "gpu_user_annotation": "annotation",
    "cuda_sync": "sync",
    "xpu_sync": "sync",
    "cuda_event": "other",
    "cuda_profiler_range": "other",
    "mtia_ccp_events": "accelerator",
    "mtia_insight": "other",
}
"""Categories of device events in lower case; events of no category or an unknown one are host events, kind other."""

RANGES = ("host", "device")
"""Tables of events that have a length."""

_TABLES = {"i": "instants", "I": "instants", "s": "flows", "f": "flows", "C": "counters", "M": "metadata"}
_NO_TIME = "event without a usable time: left out"
_NO_DURATION = "event without a usable duration: left out"
FAR = "event more than a day away from the rest of the trace: left out"
"""Told of events whose time is broken."""

_FAR_END = "event that ends more than a day after the rest of the trace: kept without length"
_UNFINISHED = "event that never finished (duration -1): kept without length"
_NEGATIVE = "event with a negative duration: kept without length"


@dataclass(slots=True)
class Rows:
    """Events of one table: their positions in the source, their start (ns) and, for ranges, their end (ns)."""

    index: list[int] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    start: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    end: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.events)

    def only(self, keep: npt.NDArray[np.bool_]) -> "Rows":
        """The rows where `keep` is true."""
        if keep.all():
            return self
        chosen = np.flatnonzero(keep).tolist()
        index, events = [self.index[row] for row in chosen], [self.events[row] for row in chosen]
        return Rows(index, events, self.start[keep], self.end[keep] if len(self.end) else self.end)


def kind_of(event: Event, kinds: dict[str, str]) -> str:
    """The kind that `kinds` gives to the category of `event`, else `other`."""
    return kind_named(event.get("cat"), kinds)


def kind_named(category: object, kinds: dict[str, str]) -> str:
    """As `kind_of`, of the category alone."""
    return kinds.get(category.lower(), "other") if isinstance(category, str) else "other"


def sort_events(elements: Iterable[tuple[int, Any]], base: int, note: Note) -> dict[str, Rows]:
    """Rows by table (host, device, memory, flows, counters, instants, metadata); `base` ns is added to every time.

    `elements` come with their positions. The length of a range stands in `end` until `finish` makes it one.
    """
    tables = _by_table(elements, note)
    for table, rows in tables.items():
        if table != "metadata":
            tables[table] = _timed(rows, base, note, ranges=table in RANGES)
    return tables


def finish(tables: dict[str, Rows], first: int, last: int, note: Note) -> None:
    """Leave out what is far from the bulk, which starts from `first` to `last`, and turn lengths into ends."""
    for table, rows in tables.items():
        if table != "metadata":
            near = is_near(rows.start, first, last)
            note(FAR, int(len(rows) - near.sum()))
            tables[table] = rows.only(near)
    for table in RANGES:
        tables[table].end = ends(tables[table].start, tables[table].end, last, note)


def is_near(start: Ints, first: int, last: int) -> npt.NDArray[np.bool_]:
    """Which starts are within a day of the bulk."""
    return (start >= first - DAY) & (start <= last + DAY)


def _by_table(elements: Iterable[tuple[int, Any]], note: Note) -> dict[str, Rows]:
    names = ("host", "device", "memory", "flows", "counters", "instants", "metadata")
    tables = {name: Rows() for name in names}
    places = {name: (rows.index.append, rows.events.append) for name, rows in tables.items()}
    sides: dict[object, str] = dict.fromkeys(DEVICE_KINDS, "device")
    unread: Counter[str] = Counter()
    for index, event in elements:
        if type(event) is not dict:
            unread["element that is not an event: left out"] += 1
            continue
        phase = event.get("ph")
        if phase == "X":
            category = event.get("cat")
            if type(category) is str:
                side = sides.get(category)
                if side is None:
                    side = sides[category] = "device" if category.lower() in DEVICE_KINDS else "host"
            else:
                side = "host"
        elif type(phase) is str and phase in _TABLES:
            side = _TABLES[phase]
            if side == "instants" and event.get("name") == "[memory]":
                side = "memory"
            elif side == "counters" and not (isinstance(event.get("args"), dict) and event["args"]):
                unread["counter without a value: left out"] += 1
                continue
        else:
            unread[unread_because(event, phase)] += 1
            continue
        add_index, add_event = places[side]
        add_index(index)
        add_event(event)
    for reason, count in unread.items():
        note(reason, count)
    return tables


def unread_because(event: Event, phase: object) -> str:
    """Why an event of `phase` is not read."""
    if not event:
        return "empty event: left out"
    if phase is None:
        return "event without a phase: left out"
    return f"event of phase {str(phase)[:20]!r}, which is not read: left out"


def _timed(rows: Rows, base: int, note: Note, *, ranges: bool) -> Rows:
    """Rows with a start (and, for `ranges`, the duration as `end`, still to be added); others are left out."""
    starts = [nanoseconds(event.get("ts")) for event in rows.events]
    lengths = [nanoseconds(event.get("dur")) for event in rows.events] if ranges else [0] * len(starts)
    note(_NO_TIME, starts.count(None))
    timed = [start is not None for start in starts]
    note(_NO_DURATION, sum(length is None and has for length, has in zip(lengths, timed, strict=True)))
    keep = np.array([a is not None and b is not None for a, b in zip(starts, lengths, strict=True)], dtype=np.bool_)
    rows.start = np.array([FARTHEST if start is None else start for start in starts], dtype=np.int64) + base
    rows.end = np.array([0 if length is None else length for length in lengths], dtype=np.int64)
    return rows.only(keep)


def bulk(parts: list[Ints]) -> tuple[int, int]:
    """First and last start of the bulk: the largest group without a gap of a day, if it is more than half of all."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return -FARTHEST, FARTHEST
    first, last = min(int(part.min()) for part in parts), max(int(part.max()) for part in parts)
    if last - first <= DAY:
        return first, last
    ordered = np.sort(np.concatenate(parts))
    edges = np.concatenate(([0], np.flatnonzero(np.diff(ordered) > DAY) + 1, [len(ordered)]))
    sizes = np.diff(edges)
    largest = int(np.argmax(sizes))
    if sizes[largest] * 2 <= len(ordered):
        return first, last
    return int(ordered[edges[largest]]), int(ordered[edges[largest + 1] - 1])


def ends(start: Ints, length: Ints, last: int, note: Note) -> Ints:
    """Where ranges end; an end that cannot be is the start. `length` may be written to."""
    if not len(start):
        return length
    if length.min() >= 0 and length.max() <= DAY and start.max() <= last:
        return np.add(start, length, out=length)
    far = length > last + DAY - start
    unfinished = length == -1000
    negative = (length < 0) & ~unfinished
    note(_FAR_END, int(far.sum()))
    note(_UNFINISHED, int(unfinished.sum()))
    note(_NEGATIVE, int(negative.sum()))
    return np.add(start, np.where(far | (length < 0), 0, length), out=length)
