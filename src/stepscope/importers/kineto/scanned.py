"""A scanned trace to tables: regular events as whole columns, odd ones as the reader of whole texts has them."""

from collections import Counter
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath
from stepscope.importers.kineto.columns import Event, identifiers
from stepscope.importers.kineto.event_tables import FILLERS, HOST_WORK, host_pids
from stepscope.importers.kineto.events import (
    HOST_KINDS,
    RANGES,
    Rows,
    bulk,
    finish,
    kind_named,
    sort_events,
    unread_because,
)
from stepscope.importers.kineto.header import NAMINGS, Identity
from stepscope.importers.kineto.regular import Regular, Texts
from stepscope.importers.kineto.scan import Cutting, Scanned, Unfit, scan
from stepscope.importers.kineto.scanned_tables import FRAMES
from stepscope.importers.kineto.source import Note
from stepscope.importers.kineto.trace_document import fill

__all__ = ["Unfit", "read_scanned"]


def read_scanned(path: AnyPath, sink: Sink, cutting: Cutting | None = None) -> None:
    """Fill all tables. Raises BadInput if the file holds no trace, and Unfit, with nothing filled, if it is not for
    the scanner."""
    found = scan(path, cutting or Cutting(), sink.progress)
    for reason, count in found.notes.items():
        sink.skip(str(path), reason, count)
    fill(path, found.document, _Found(found), sink)


class _Found:
    """The list of events."""

    def __init__(self, scanned: Scanned) -> None:
        self._scanned = scanned
        self.elements = scanned.columns.count
        odd_events = sum(isinstance(value, dict) for _, value in scanned.odd)
        self.has_events = self.elements > len(scanned.odd) - odd_events

    def sort(self, base: int, note: Note) -> "_Events":
        return _Events(self._scanned, base, note)


class _Events:
    """The events of a scanned trace with exact times, by table; what is left out is noted."""

    def __init__(self, scanned: Scanned, base: int, note: Note) -> None:
        texts = Texts(scanned.columns)
        self._odd = sort_events(scanned.odd, base, note)
        self._regular = {table: Regular(table, scanned.columns, texts, base) for table in FRAMES}
        self._metadata = Regular("metadata", scanned.columns, texts, base)
        _note_unread(Regular("unread", scanned.columns, texts, base), note)
        every: tuple[dict[str, Regular], dict[str, Rows]] = self._regular, self._odd
        first, last = bulk([tables[table].start for tables in every for table in RANGES])
        finish(self._odd, first, last, note)
        for events in self._regular.values():
            events.place(first, last, note)

    @property
    def metadata(self) -> list[Event]:
        """Events that name processes and threads, in the order of the file."""
        odd = self._odd["metadata"]
        found = [*_namings(self._metadata), *zip(odd.index, odd.events, strict=True)]
        return [event for _, event in sorted(found, key=itemgetter(0))]

    @property
    def metadata_events(self) -> int:
        """Metadata in all."""
        return len(self._metadata) + len(self._odd["metadata"])

    @property
    def placed(self) -> int:
        """Events that are in a table, or are metadata."""
        odd = sum(len(rows) for table, rows in self._odd.items() if table != "metadata")
        return sum(map(len, self._regular.values())) + odd + self.metadata_events

    def host_pids(self) -> Counter[str]:
        """How many events of host work each process has, as `tables.host_pids` counts them and in its order."""
        found: dict[str, tuple[int, int]] = {}
        for pid, count, first in [*_regular_pids(self._regular["host"]), *_odd_pids(self._odd["host"])]:
            known, earlier = found.get(pid, (0, first))
            found[pid] = known + count, min(earlier, first)
        return Counter({pid: found[pid][0] for pid in sorted(found, key=lambda pid: found[pid][1])})

    def fill(self, identity: Identity, note: Note, sink: Sink) -> None:
        """Add all tables of events to `sink`; rows stand in the order of the file."""
        for fill_odd, table in FILLERS:
            part = Sink()
            regular = self._regular.pop(table, None)
            if regular is not None and len(regular):
                part.add(table, FRAMES[table](regular, identity, note))
            if not part.parts or len(self._odd[table]):
                fill_odd(self._odd[table], identity, note, part)
            del regular
            frames = part.parts[table]
            whole = frames[0] if len(frames) == 1 else pl.concat(frames).sort("index")
            sink.parts.setdefault(table, []).append(whole)


def _namings(events: Regular) -> list[tuple[int, Event]]:
    """Positions and the members that name something, of metadata that do; the rest says how to draw a trace."""
    names = events.codes("name")
    if names is None:
        return []
    columns = {"name": names}
    for column in ("pid", "tid", "name_given", "labels"):
        codes = events.codes(column)
        if codes is not None:
            columns[column] = codes
    rows = np.flatnonzero(np.array([value in NAMINGS for value in names.values])[names.array()])
    rows = _first_and_last(rows, [codes.array() for codes in columns.values()])
    members: dict[str, list[Any]] = {column: codes.among(rows) for column, codes in columns.items()}
    absent = [None] * len(rows)
    given = zip(members.pop("name_given", absent), members.pop("labels", absent), strict=True)
    members["args"] = [{"name": name, "labels": labels} for name, labels in given]
    found = [dict(zip(members, values, strict=True)) for values in zip(*members.values(), strict=True)]
    return list(zip(events.positions().gather(rows).to_list(), found, strict=True))


def _first_and_last(rows: npt.NDArray[np.int64], codes: list[npt.NDArray[np.uint32]]) -> npt.NDArray[np.int64]:
    """Of rows with the same codes the first and the last: a trace may name its processes before every event."""
    if not len(rows):
        return rows
    keys = {str(number): column[rows] for number, column in enumerate(codes)}
    ends = pl.DataFrame({**keys, "row": rows}).group_by(*keys).agg(first=pl.col("row").min(), last=pl.col("row").max())
    return np.unique(ends.select("first", "last").to_numpy())


def _note_unread(events: Regular, note: Note) -> None:
    phases = events.codes("ph")
    if phases is None:
        note(unread_because({"": None}, None), len(events))
        return
    for value, count in zip(phases.values, np.bincount(phases.array(), minlength=len(phases.values)), strict=True):
        note(unread_because({"ph": value}, value), int(count))


def _regular_pids(events: Regular) -> list[tuple[str, int, int]]:
    """For each process with events of host work: its id, their number, the position of the first."""
    pids, categories = events.codes("pid"), events.codes("cat")
    if pids is None or categories is None:
        return []
    works = np.array([kind_named(value, HOST_KINDS) in HOST_WORK for value in categories.values])
    at_work, numbers, positions = works[categories.array()], pids.array(), events.positions()
    counts = np.bincount(numbers[at_work], minlength=len(pids.values)).tolist()
    return [
        (pid, counts[number], positions[int(((numbers == number) & at_work).argmax())])
        for number, pid in enumerate(identifiers(pids.values))
        if pid is not None and counts[number]
    ]


def _odd_pids(rows: Rows) -> list[tuple[str, int, int]]:
    return [(pid, 1, index) for index, event in zip(rows.index, rows.events, strict=True)
            for pid in host_pids(Rows([index], [event]))]  # fmt: skip
