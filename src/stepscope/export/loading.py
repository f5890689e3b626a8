"""The input pipeline in a trace: workers as the processes they were, and each batch's way from one to the next.

Of a traced window those batches are drawn whole of which something happened in it or not longer before or after it
than it takes; without a trace, all. `MOST` bounds both: the nearest to the window are drawn, or the first of the run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl

from stepscope.analyses.input_pipeline.loader_stages import RECORD_LOADING
from stepscope.analyses.lib.wall_clock import Offset
from stepscope.core.errors import MissingData
from stepscope.core.plural import plural
from stepscope.core.report import Text, Value
from stepscope.core.run import Run
from stepscope.export.batches import BATCH, Way, used, ways
from stepscope.export.events import Clock, arrow_end, begin, end, process, thread
from stepscope.export.lanes import Lanes
from stepscope.export.source import Source

__all__ = ["MOST", "Chosen", "chosen", "loader_events"]

MOST = 200_000
"""Spans in a file: some 75 MB of JSON, which viewers still open in seconds."""

RECORD_ALL = "record those of every batch: `stepscope run --loader all -- COMMAND`"
_CALLS = ("transform", "decode", "read", "label")
_TOLD = ("loader", "iterator", "epoch", "batch", "sample", "name", "count", "cpu", "weight", "file", "line")


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Spans, and steps with the uses of batches, as they are drawn, and the ways of batches; `all` spans there are.

    `offset` is what the trace's clock reads more, `fit` a row of `loader_clock` for it. `margin` is the time before and
    after the window whose batches are drawn; None: there is no window.
    """

    run: Run
    spans: pl.DataFrame
    steps: pl.DataFrame
    ways: tuple[Way, ...]
    all: int
    offset: Offset
    margin: int | None
    fit: Mapping[str, Any] | None

    def told(self) -> list[Text]:
        """What of the spans is drawn, and how well it fits the trace."""
        counts = (Value(self.spans.height, "count"), Value(self.all, "count"))
        spans = f"{{}} {plural(self.all, 'span')}"
        texts = [Text(f"loader: {{}} of {spans}, of the whole run", counts)]
        if self.margin is not None:
            words = f"loader: {{}} of {spans}, of batches in the traced window or up to {{}} before and after it"
            texts = [Text(words, (*counts, Value(self.margin, "ns")))]
        backwards = sum(way.backwards for way in self.ways)
        if backwards:
            words = "loader: arrows left out, because they would lead back in time: {}"
            texts.append(Text(words, (Value(backwards, "count"),)))
        return [*texts, *(_fitting(self.fit) if self.fit else ())]


def _fitting(fit: Mapping[str, Any]) -> Iterator[Text]:
    """How the spans fit the trace, from a row of `loader_clock`."""
    checked, wrong = Value(fit["checked"], "count"), Value(fit["violations"], "count")
    if fit["violations"]:
        words = "loader: {} of {} waits for a batch do not fit the trace: the clocks differ, see loader_clock"
        yield Text(words, (wrong, checked))
    else:
        off = Value(max(-fit["low"], fit["high"]), "ns")
        yield Text(
            "loader: off the clock of the trace by at most {}, measured by waits for a batch: {}", (off, checked)
        )


def chosen(source: Source) -> Chosen:
    """What is drawn of a source. Raises MissingData where no spans of loading were recorded."""
    run = source.beside()
    spans = run.table("loader_spans", how=RECORD_LOADING)
    window, offset = source.window(), source.offset()
    ordered = spans.sort("start", "end", descending=[False, True], maintain_order=True)
    if window is None:
        near = _nearest(ordered.with_columns(far=pl.col("start")), None)
        margin = None
    else:
        first, last = (time - offset.offset for time in window)
        margin = last - first
        far = pl.max_horizontal(0, first - pl.col("end"), pl.col("start") - last)
        near = _nearest(ordered.with_columns(far=far), margin)
    if near.is_empty():
        raise MissingData("spans of the input pipeline near the traced window", how=RECORD_ALL)
    steps = run.optional("steps").filter(
        (pl.col("end") >= near["start"].min()) & (pl.col("start") <= near["end"].max())
    )
    drawn = used(steps, near, run.optional("loaders"))
    return Chosen(run, near, drawn, tuple(ways(near, drawn)), spans.height, offset, margin, source.fit())


def _nearest(spans: pl.DataFrame, margin: int | None) -> pl.DataFrame:
    """The spans of whole batches up to `margin` away, at most MOST: those with the least `far` first."""
    lone = pl.when(pl.any_horizontal(pl.col(BATCH).is_null())).then(pl.int_range(pl.len()))  # of no batch we know
    keyed = spans.with_columns(lone=lone, place=pl.int_range(pl.len()))
    batches = keyed.group_by(*BATCH, "lone").agg(pl.col("far").min(), pl.len(), pl.col("place").min())
    if margin is not None:
        batches = batches.filter(pl.col("far") <= margin)
    kept = batches.sort("far", "place").filter(pl.col("len").cum_sum() <= MOST)
    return keyed.join(kept.select(*BATCH, "lone"), on=(*BATCH, "lone"), how="semi", nulls_equal=True).drop(
        "lone", "place", "far"
    )


def loader_events(source: Source, clock: Clock, pid: int) -> Iterator[str]:
    """The events of what is `chosen`, as JSON; `pid` and those after it are free."""
    return _events(source, chosen(source), clock, pid)


def _events(source: Source, found: Chosen, clock: Clock, pid: int) -> Iterator[str]:
    shifted = Clock(clock.base - found.offset.offset)
    lanes = Lanes(_taken(source, found), pid, found.run.optional("loaders"))
    spans, steps = lanes.placed(found.spans), lanes.steps(found.steps)
    yield from _names(lanes, alone=source.trace is None)
    of_spans, of_steps = _arrows(found, spans, steps, shifted)
    yield from _nested(found.spans.iter_rows(named=True), spans, of_spans, _name, _told, shifted)
    yield from _nested(found.steps.iter_rows(named=True), steps, of_steps, _step_name, _step_told, shifted)


Row: TypeAlias = dict[str, Any]
Places: TypeAlias = Sequence[tuple[int, int]]
Arrows: TypeAlias = dict[int, str]


def _nested(
    rows: Iterable[Row],
    places: Places,
    arrows: Arrows,
    name: Callable[[Row], str],
    told: Callable[[Row], dict[str, object]],
    clock: Clock,
) -> Iterator[str]:
    """Slices with the arrows that begin or end at them; in a thread, by place, they nest."""
    unended: dict[tuple[int, int], list[int]] = {}
    for row, (values, place) in enumerate(zip(rows, places, strict=True)):
        ends = unended.setdefault(place, [])
        while ends and ends[-1] <= values["start"]:
            yield end(clock, *place, ends.pop())
        ends.append(values["end"])
        yield begin(clock, *place, name(values), values["start"], told(values))
        if row in arrows:
            yield arrows[row]  # before what begins in here at this moment, which it would be bound to
    for place, ends in unended.items():
        yield from (end(clock, *place, time) for time in reversed(ends))


def _arrows(found: Chosen, spans: Places, steps: Places, clock: Clock) -> tuple[Arrows, Arrows]:
    """Ends of arrows by the row of the span, and of the use in a step, that they belong to; an id is one batch's."""
    of_spans: Arrows = {}
    of_steps: Arrows = {}
    begun, used_from = found.spans["start"].to_list(), found.steps["start"].to_list()
    for number, way in enumerate(found.ways, start=1):
        stations = [(of_spans, row, spans[row], begun[row]) for row in way.spans]
        stations += [(of_steps, way.use, steps[way.use], used_from[way.use])] if way.use is not None else []
        for place, (arrows, row, where, time) in enumerate(stations):
            phase = "s" if not place else "t" if place < len(stations) - 1 else "f"
            arrows[row] = arrow_end(clock, phase, "batch", number, *where, time)
    return of_spans, of_steps


def _names(lanes: Lanes, *, alone: bool) -> Iterator[str]:
    """Names of workers and tracks; where the file has no trace, of the training process, too."""
    for number, name, is_worker in lanes.processes():
        if is_worker or alone:
            yield from process(number, name, number)
    for number, tid, name in lanes.threads():
        yield thread(number, tid, name)


def _taken(source: Source, found: Chosen) -> set[str]:
    """Process numbers that the trace uses for something else than the processes that are drawn."""
    if source.trace is None:
        return set()
    columns = (("host", "pid"), ("threads", "pid"), ("counters", "pid"), ("device", "device"))
    used = {str(number) for table, name in columns for number in source.trace.optional(table, name)[name].unique()}
    return used - set(found.spans.filter(pl.col("worker").is_null())["pid"])


def _step_name(row: Row) -> str:
    return f"step {row['step']}" if row["batch"] is None else f"batch {row['batch']}"


def _step_told(row: Row) -> dict[str, object]:
    parts = ("data_wait", "forward", "backward", "optimizer", "other")
    told = {f"{part}_ns": row[part] for part in parts if row[part] is not None}
    return told | {name: row[name] for name in BATCH if row[name] is not None}


def _name(row: Row) -> str:
    return str(row["name"] or row["stage"]) if row["stage"] in _CALLS else str(row["stage"])


def _told(row: Row) -> dict[str, object]:
    told = {name: row[name] for name in _TOLD if row[name] is not None}
    names = {"cpu": "cpu_ns", "count": "bytes" if row["stage"] == "send" else "samples"}
    return {names.get(name, name): value for name, value in told.items()} | ({"failed": True} if row["failed"] else {})
