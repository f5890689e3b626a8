"""Which stretches of a track were recorded: an empty lane elsewhere says nothing about what ran there."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from stepscope.analyses.steps.steps import steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.timeline.content import Content, Spans, Stretch, Track
from stepscope.timeline.trace_clock import on_clock

__all__ = ["traced_steps", "with_stretches"]

_OF_TRACE = ("stream", "gaps", "path", "host")
_LOADING = "loader:"  # begins the ids of tracks that the recorder writes, not a trace
_LOOP = ":fetch-loop"  # ends the ids of tracks of which every moment has a span while they are recorded
_PAUSE = 5_000_000
"""ns between two spans of a worker's loop: its own code takes microseconds, so that longer is a batch left out."""


def with_stretches(run: Run, contents: Sequence[Content]) -> tuple[Content, ...]:
    """The same tracks, each with what of it was recorded."""
    known: dict[str, tuple[Stretch, ...] | None] = {}
    for rank in {part.track.rank for part in contents}:
        of_rank = [part.track for part in contents if part.track.rank == rank]
        of_trace = [track for track in of_rank if track.kind in _OF_TRACE and not track.id.startswith(_LOADING)]
        if of_trace:
            known |= dict.fromkeys((track.id for track in of_trace), _windows(run, rank, of_trace))
    loops = {(part.track.rank, part.track.pid): _of_loop(part) for part in contents if _is_loop(part)}
    for part in contents:
        if part.track.kind == "worker" and (part.track.rank, part.track.pid) in loops:
            known[part.track.id] = loops[part.track.rank, part.track.pid]
    return tuple(replace(part, track=replace(part.track, recorded=known.get(part.track.id))) for part in contents)


def traced_steps(run: Run, rank: int | None) -> list[int]:
    """The numbers of the steps of a rank that a trace holds in detail; none where the run marks none as traced."""
    try:
        table = steps(run)
    except MissingData:
        return []
    traced = table.filter(pl.col("rank").eq_missing(rank), pl.col("tags").list.contains("traced"))
    return sorted(traced["step"].to_list())


def _windows(run: Run, rank: int | None, of_trace: Sequence[Track]) -> tuple[Stretch, ...] | None:
    """From the first to the last event of the trace, without what lies between two traced windows.

    None where the run is the trace: then nothing of it lies outside.
    """
    numbers = traced_steps(run, rank)
    if not numbers:
        return None
    first, last = min(track.first for track in of_trace), max(track.last for track in of_trace)
    edges = [at for at in range(1, len(numbers)) if numbers[at] > numbers[at - 1] + 1]
    if not edges:
        return ((first, last),)
    table = steps(run).filter(pl.col("rank").eq_missing(rank))
    ends = [_moment(run, rank, table, numbers[at - 1], "end") for at in edges]
    starts = [_moment(run, rank, table, numbers[at], "start") for at in edges]
    pairs = zip([first, *starts], [*ends, last], strict=True)
    return tuple((start, end) for start, end in pairs if start is not None and end is not None and start < end)


def _moment(run: Run, rank: int | None, table: pl.DataFrame, step: int, edge: str) -> int | None:
    time = np.array([table.filter(step=step)[edge][0]], dtype=np.int64)
    moved = on_clock(run, rank, time)
    return None if moved is None else int(moved[0])


def _is_loop(part: Content) -> bool:
    return isinstance(part, Spans) and part.track.id.endswith(_LOOP)


def _of_loop(part: Content) -> tuple[Stretch, ...]:
    """The loop of a worker is waiting, fetching or handing over; where it does nothing, nothing was recorded."""
    assert isinstance(part, Spans)
    start, end = part.lanes[0].start, part.lanes[0].end
    until = np.maximum.accumulate(end)
    breaks = np.flatnonzero(start[1:] - until[:-1] > _PAUSE)
    firsts, lasts = [0, *(breaks + 1).tolist()], [*breaks.tolist(), len(start) - 1]
    return tuple((int(start[one]), int(until[other])) for one, other in zip(firsts, lasts, strict=True))
