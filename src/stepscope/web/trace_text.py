"""The tracks of the timeline as a trace for Perfetto: JSON, whose times count from the first moment of the run.

They are exact: µs with three decimals, small enough for the viewer's floating-point numbers. Spans that begin in
another and end after it, which a viewer drops on one thread, get threads of their own.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from stepscope.core.run import Run
from stepscope.timeline import columns_told, contents, inside, origin, rows_of, tracks
from stepscope.timeline.content import Content, Series, Spans
from stepscope.timeline.lanes import Ints, SpanLane

__all__ = ["MOST_SPANS", "count", "trace_text"]

MOST_SPANS = 1_000_000
"""Spans and values that are handed over: Perfetto takes half a minute and gigabytes for that many in a browser."""

_PIECE = 50_000  # lines that are written at a time
_LAUNCHES = ("runtime", "driver")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a track goes: number of its process, and of its first thread."""

    pid: int
    tid: int


def count(run: Run, window: tuple[int, int]) -> int:
    """How many spans and values of counters are in a window."""
    parts = _contents(run)
    places = [inside(lane, *window) for part in parts if isinstance(part, Spans) for lane in part.lanes]
    places += [_values(part, window) for part in parts if isinstance(part, Series)]
    return sum(max(0, last - first) for first, last in places)


def trace_text(run: Run, window: tuple[int, int]) -> Iterator[str]:
    """The text of a trace of all that touches a window, in pieces."""
    first, parts = origin(run), _contents(run)
    pids = {group: number for number, group in enumerate(dict.fromkeys(part.track.group for part in parts), 1)}
    places = {part.track.id: _Place(pids[part.track.group], 1 + 1000 * at) for at, part in enumerate(parts)}
    yield '{"displayTimeUnit": "ns", "traceEvents": [\n'
    yield ",\n".join(_named(parts, pids, places))
    launches: list[pl.DataFrame] = []
    for part in parts:
        place = places[part.track.id]
        lines = _counter(part, place, window, first) if isinstance(part, Series) else iter(())
        if isinstance(part, Spans):
            lines = _slices(run, part, place, window, first, launches)
        yield from ("," + piece for piece in lines)
    yield from ("," + piece for piece in _arrows(launches))
    yield "\n]}\n"


def _contents(run: Run) -> list[Content]:
    known = tracks(run)
    of_rank = {rank: contents(run, rank) for rank in dict.fromkeys(track.rank for track in known)}
    found = {part.track.id: part for parts in of_rank.values() for part in parts}
    return [found[track.id] for track in known if isinstance(found[track.id], (Spans, Series))]


def _named(parts: list[Content], pids: Mapping[str, int], places: Mapping[str, _Place]) -> Iterator[str]:
    """Names and order of processes and threads."""
    for group, pid in pids.items():
        for key, word in (("process_name", {"name": group}), ("process_sort_index", {"sort_index": pid})):
            yield json.dumps({"ph": "M", "name": key, "pid": pid, "tid": 0, "ts": 0, "args": word})
    for part in parts:
        place = places[part.track.id]
        for at, tid in enumerate(_threads(part, place)):
            name = part.track.name if not at else f"{part.track.name} ({at + 1})"
            for key, arguments in (("thread_name", {"name": name}), ("thread_sort_index", {"sort_index": tid})):
                yield json.dumps({"ph": "M", "name": key, "pid": place.pid, "tid": tid, "ts": 0, "args": arguments})


def _threads(part: Content, place: _Place) -> list[int]:
    """The threads of a track: one for all lanes that nest, and one for each that does not."""
    lanes = part.lanes if isinstance(part, Spans) else ()
    return [place.tid + at for at in range(1 + sum(not lane.nests for lane in lanes))] if lanes else []


def _slices(
    run: Run, part: Spans, place: _Place, window: tuple[int, int], first: int, launches: list[pl.DataFrame]
) -> Iterator[str]:
    """The spans of a track, outer lanes first, with what its table holds about each."""
    names = pl.Series([json.dumps(name, ensure_ascii=False) for name in part.names])
    kinds = pl.Series([json.dumps(category) for category in part.categories])
    tid = place.tid
    for lane in part.lanes:
        tid += not lane.nests
        begin, last = inside(lane, *window)
        for low in range(begin, last, _PIECE):
            at = slice(low, min(low + _PIECE, last))
            told = _told(run, part, lane.row[at])
            launches.append(_launching(part, told, lane, at, first, place.pid, tid))
            words = (
                f'{{"ph":"X","pid":{place.pid},"tid":{tid},"name":', pl.lit(names.gather(lane.name[at])),
                ',"cat":', pl.lit(kinds.gather(lane.name[at])), ',"ts":', _micro(pl.lit(lane.start[at] - first)),
                ',"dur":', _micro(pl.lit(lane.end[at] - lane.start[at])), ',"args":{', _arguments(told), "}}",
            )  # fmt: skip
            yield _lines(told.select(_text(*words)).to_series())


def _told(run: Run, part: Spans, rows: Ints) -> pl.DataFrame:
    """The columns of the rows of spans that are told."""
    columns = columns_told(part.table)
    if run.ranks is not None or not columns:
        return pl.DataFrame({"row": rows}).select()  # without ranks in memory the rows are of tables elsewhere
    return rows_of(run, part.table, *columns)[rows]


def _arguments(told: pl.DataFrame) -> pl.Expr:
    """The members of a JSON object, those that are known."""
    members = []
    for name, kind in told.schema.items():
        value = told[name].cast(pl.String) if kind.is_numeric() or kind == pl.Boolean else _quoted(told[name])
        members.append(pl.lit(f'"{name}":') + pl.lit(value))
    return pl.concat_str(members, separator=",", ignore_nulls=True) if members else pl.lit("")


def _quoted(texts: pl.Series) -> pl.Series:
    """Texts as JSON writes them: each distinct one is written once."""
    plain = texts.cast(pl.String)
    known = plain.drop_nulls().unique()
    words = [json.dumps(text, ensure_ascii=False) for text in known]
    return plain.replace_strict(known, pl.Series(words, dtype=pl.String), default=None)


def _text(*words: str | pl.Expr) -> pl.Expr:
    return pl.concat_str(pl.lit(word) if isinstance(word, str) else word for word in words)


def _micro(times: pl.Expr) -> pl.Expr:
    """Times in ns as µs, exactly."""
    return _text((times // 1000).cast(pl.String), ".", (times % 1000).cast(pl.String).str.zfill(3))


def _lines(lines: pl.Series) -> str:
    return ",\n".join(lines.to_list()) + "\n"


def _launching(
    part: Spans, told: pl.DataFrame, lane: SpanLane, at: slice, first: int, pid: int, tid: int
) -> pl.DataFrame:
    """Those spans that a launch leads from, or to."""
    side = {"host": "from", "device": "to"}.get(part.table)
    if side is None or "correlation" not in told.columns:
        return pl.DataFrame()
    found = told.select(
        "correlation", "kind", time=pl.lit(pl.Series(lane.start[at] - first)), pid=pl.lit(pid), tid=pl.lit(tid),
        rank=pl.lit(part.track.rank, pl.Int32), side=pl.lit(side),
    )  # fmt: skip
    launches = pl.col("kind").is_in(_LAUNCHES) if side == "from" else pl.lit(True)
    return found.filter((pl.col("correlation") != 0) & launches)


def _arrows(launches: list[pl.DataFrame]) -> Iterator[str]:
    """From each launch to the work that it started, where both are there and one of each."""
    known = [frame for frame in launches if frame.height]
    if not known:
        return
    both = pl.concat(known).with_row_index("id", offset=1).unique(("rank", "correlation", "side"), keep="none")
    ends = both.filter(pl.col("side") == "to")
    found = both.filter(pl.col("side") == "from").join(ends, on=("rank", "correlation"), suffix="_to")
    for phase, bound, side in (("s", "", ""), ("f", '"bp":"e",', "_to")):
        number, pid, tid = (pl.col(name).cast(pl.String) for name in ("id", f"pid{side}", f"tid{side}"))
        head = f'{{"ph":"{phase}",{bound}"name":"launch","cat":"launch","id":'
        words = (head, number, ',"pid":', pid, ',"tid":', tid, ',"ts":', _micro(pl.col(f"time{side}")), "}")
        if found.height:
            yield _lines(found.select(_text(*words)).to_series())


def _counter(part: Series, place: _Place, window: tuple[int, int], first: int) -> Iterator[str]:
    """The values of a counter, from the one that holds as the window begins."""
    begin, last = _values(part, window)
    head = f'{{"ph":"C","pid":{place.pid},"tid":0,"name":{json.dumps(part.track.name, ensure_ascii=False)},"ts":'
    table = pl.DataFrame({"time": part.time[begin:last] - first, "value": part.value[begin:last]})
    known = table.filter(pl.col("value").is_finite())
    words = (head, _micro(pl.col("time")), ',"args":{"value":', pl.col("value").cast(pl.String), "}}")
    for piece in known.iter_slices(_PIECE):
        yield _lines(piece.select(_text(*words)).to_series())


def _values(part: Series, window: tuple[int, int]) -> tuple[int, int]:
    """The values of a counter in a window, from the one that holds as it begins, and behind the last."""
    begin = max(0, int(np.searchsorted(part.time, window[0], side="right")) - 1)
    return begin, int(np.searchsorted(part.time, window[1], side="left"))
