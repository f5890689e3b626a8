"""Traces that are cut off: until when they hold everything, and which of their steps that leaves whole.

A profiler writes operators of the whole window first and calls of the runtime with the work of the device behind them,
so a file that is cut has steps without their kernels. A step that ends after the last moment of which everything is
there is not judged.
"""

from dataclasses import dataclass

import polars as pl

from stepscope.analyses.lib.host_events import OPERATIONS
from stepscope.analyses.lib.host_rows import host_where
from stepscope.core.run import Run, chain

__all__ = ["AGAIN", "NO_WHOLE_STEP", "Cut", "cuts", "is_whole", "nothing_whole", "without_whole_step"]

NO_WHOLE_STEP = "whole step in what is left of the trace, which is cut off"
AGAIN = "record it again: a process that is killed while it exports leaves such a file"


@dataclass(frozen=True, slots=True)
class Cut:
    """A rank whose trace is cut: its first and last moment, the last of which everything is there, and its steps."""

    rank: int
    first: int
    until: int
    last: int
    whole: int
    steps: int
    cut_from: int


def cuts(run: Run) -> tuple[Cut, ...]:
    """One for each rank whose trace is cut, by rank."""
    return run.per_rank(_cuts, chain)


def is_whole(run: Run) -> pl.Expr:
    """The test of rows with rank and end that lie before the cut of their trace."""
    known = _moments(run)
    if not known:
        return pl.lit(True)
    until = pl.col("rank").replace_strict(known, default=None, return_dtype=pl.Int64)
    return (pl.col("end") <= until).fill_null(True)


def without_whole_step(run: Run) -> frozenset[int]:
    """The ranks whose trace is cut before the end of their first step."""
    return frozenset(cut.rank for cut in cuts(run) if cut.steps and not cut.whole)


def nothing_whole(run: Run) -> bool:
    """Whether no rank has a whole step, on any clock, because the traces are cut."""
    cut = without_whole_step(run)
    return bool(cut) and not run.rows("steps") and cut.issuperset(run.optional("processes")["rank"].drop_nulls())


def _moments(run: Run) -> dict[int, int]:
    """By rank, the last moment of which a trace that is cut holds everything."""
    meta = run.optional("meta").filter(pl.col("key") == "whole_until")
    if meta.is_empty():
        return {}
    rows = meta.join(run.optional("processes").select("rank", "source"), on="source").sort("value")
    return {rank: int(value) for rank, value in rows.select("rank", "value").iter_rows()}


def _cuts(run: Run) -> tuple[Cut, ...]:
    known = _moments(run)
    if not known:
        return ()
    marked = pl.col("name").str.contains(r"^ProfilerStep#\d+")
    markers = host_where(run, OPERATIONS, marked, "rank", "start", "end")
    events = pl.concat([run.optional(table, "rank", "start", "end") for table in ("host", "device")])
    ranks = set(events["rank"].unique())
    return tuple(_of_rank(rank, known[rank], markers, events) for rank in sorted(known) if rank in ranks)


def _of_rank(rank: int, until: int, markers: pl.DataFrame, events: pl.DataFrame) -> Cut:
    own = markers.filter(pl.col("rank") == rank)
    broken = own.filter(pl.col("end") > until)["start"].min()
    times = events.filter(pl.col("rank") == rank).select(first=pl.col("start").min(), last=pl.col("end").max())
    first, last = times.row(0)
    cut_from = broken if isinstance(broken, int) else until
    return Cut(rank, first, max(first, until), max(last, until), own.filter(pl.col("end") <= until).height,
               own.height, cut_from)  # fmt: skip
