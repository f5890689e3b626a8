"""All that the tables hold about one span, and what it has to do with others: for a click on it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from stepscope.analyses.lib.call_sites import user_site
from stepscope.core.run import Run
from stepscope.core.schema import TABLES, Column, Unit
from stepscope.timeline.content import Category, Spans
from stepscope.timeline.contents import chosen, tracks
from stepscope.timeline.rows import columns_of, rows_of
from stepscope.timeline.search import Ref

__all__ = ["Argument", "Event", "Link", "event"]

MOST_LINKS = 20  # that are shown of a call that launches more, as the replay of a graph does
_KNOWN = {"rank", "name", "start", "end"}  # of a span, said elsewhere
_CALLS = ("runtime", "driver")


@dataclass(frozen=True, slots=True)
class Argument:
    """A column of the row of a span; `meaning` is that of the data dictionary."""

    name: str
    value: str | int | float | bool
    unit: Unit | None
    meaning: str


@dataclass(frozen=True, slots=True)
class Link:
    """Another span and what it is to this one: around it, launched by it, or what launched it."""

    what: str
    name: str
    ref: Ref
    end: int


@dataclass(frozen=True, slots=True)
class Event:
    """A span. `place` is file:line of the innermost frame of the user's own code around it, None if not recorded."""

    ref: Ref
    name: str
    category: Category
    end: int
    arguments: tuple[Argument, ...]
    links: tuple[Link, ...]
    place: str | None


def event(run: Run, ref: Ref) -> Event:
    """Raises KeyError where no such span is."""
    content = chosen(run, [ref.track])[0]
    if not isinstance(content, Spans) or not 0 <= ref.lane < len(content.lanes):
        raise KeyError(ref)
    lane = content.lanes[ref.lane]
    index = int(np.searchsorted(lane.start, ref.start, side="right")) - 1
    if index < 0 or lane.start[index] != ref.start:
        raise KeyError(ref)
    end, code = int(lane.end[index]), int(lane.name[index])
    row = _row(run, content, ref.start, end, code, int(lane.row[index]))
    columns = columns_of(content.table)
    around = tuple(_around(content, ref.track, ref.lane, ref.start, end))
    linked = tuple(_linked(run, content, row)) if row else ()
    name = content.names[code]
    frames = [name, *(link.name for link in reversed(around)), *(link.name for link in linked)]
    stack = str(row.get("call_stack") or "").split(";") if row else []
    site = user_site(text.strip() for text in (*frames, *stack))
    place = None if site.file is None else f"{site.file}:{site.line}"
    if row.get("file") and row.get("line"):
        place = f"{row['file']}:{row['line']}"
    return Event(ref, name, content.categories[code], end, tuple(_arguments(row, columns)), (*linked, *around), place)


def _row(run: Run, content: Spans, start: int, end: int, code: int, number: int) -> dict[str, Any]:
    """The row of a span. Of tables of events only this row is read."""
    if content.table in ("host", "device"):
        of_track = pl.col("rank").eq_missing(content.track.rank) & (pl.col("name") == content.names[code])
        test = (pl.col("start") == start) & (pl.col("end") == end) & of_track
        _, _, *key = content.track.id.split(":", 3)
        lane = "thread" if content.table == "host" else "stream"
        columns = [column.name for column in TABLES[content.table]]
        found = run.where(content.table, test & (pl.col(lane) == key[-1]), *columns)
        return found.row(0, named=True) if found.height else {}
    table = rows_of(run, content.table)
    if run.ranks is not None:  # tables were prepared rank by rank
        table = table.filter(pl.col("rank") == content.track.rank)
    return table.row(number, named=True)


def _arguments(row: dict[str, Any], columns: tuple[Column, ...]) -> Iterator[Argument]:
    for column in columns:
        value = row.get(column.name)
        if value is not None and column.name not in _KNOWN:
            plain = value if isinstance(value, (str, int, float, bool)) else ", ".join(str(item) for item in value)
            yield Argument(column.name, plain, column.unit, column.meaning)


def _around(content: Spans, track: str, number: int, start: int, end: int) -> Iterator[Link]:
    """The spans that hold one, outermost first."""
    for above, lane in enumerate(content.lanes[:number]):
        index = int(np.searchsorted(lane.start, start, side="right")) - 1
        if index >= 0 and lane.end[index] >= end:
            ref = Ref(track, above, int(lane.start[index]))
            yield Link("in", content.names[lane.name[index]], ref, int(lane.end[index]))


def _linked(run: Run, content: Spans, row: dict[str, Any]) -> Iterator[Link]:
    """The call that launched work of a device, with the operator around it; or the work that a call launched."""
    if not row.get("correlation"):
        return
    of_process = (pl.col("rank") == row["rank"]) & pl.col("pid").eq_missing(row["pid"])
    same = (pl.col("correlation") == row["correlation"]) & of_process
    if content.table == "device":
        calls = run.where("host", same & pl.col("kind").is_in(_CALLS), "pid", "thread", "name", "start", "end")
        for pid, thread, name, start, end in calls.head(1).iter_rows():
            yield from _located(run, f"host:{row['rank']}:{pid}:{thread}", "launched by", name, start, end, inner=True)
    elif content.table == "host" and row["kind"] in _CALLS:
        work = run.where("device", same, "device", "stream", "name", "start", "end")
        for device, stream, name, start, end in work.head(MOST_LINKS).iter_rows():
            yield from _located(run, f"stream:{row['rank']}:{device}:{stream}", "launches", name, start, end)


def _located(
    run: Run, track: str, what: str, name: str, start: int, end: int, *, inner: bool = False
) -> Iterator[Link]:
    """A span that is known by its times, and with `inner` the one around it and the frames of Python that call it."""
    if track not in {known.id for known in tracks(run)}:
        return
    content = chosen(run, [track])[0]
    assert isinstance(content, Spans)
    for number, lane in enumerate(content.lanes):
        index = int(np.searchsorted(lane.start, start, side="right")) - 1
        if index >= 0 and lane.start[index] == start and content.names[lane.name[index]] == name:
            yield Link(what, name, Ref(track, number, start), end)
            if inner:
                around = list(_around(content, track, number, start, end))[::-1]
                yield from (Link("from", link.name, link.ref, link.end) for link in around)
            return
