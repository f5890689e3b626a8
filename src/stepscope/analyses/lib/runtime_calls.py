"""Calls of a device's runtime in which the host loses time: which are the job's, who makes them, from which line."""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.call_sites import call_sites, site_table
from stepscope.analyses.lib.host_events import HostTree, host_tree
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.markers import step_markers
from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE_ON_GPU, by_rank, quotient
from stepscope.analyses.lib.source_texts import with_texts
from stepscope.core.errors import MissingData
from stepscope.core.finding import Place
from stepscope.core.intervals import Spans, spans, union
from stepscope.core.run import Run
from stepscope.core.schema import Column

__all__ = [
    "PLACE",
    "busy_of",
    "by_place",
    "calls_in_order",
    "launch_starts",
    "of_the_job",
    "places_of",
    "tree_with_calls",
]

Ints = npt.NDArray[np.int64]

PLACE = (
    RANK,
    Column("call", pl.String, None, "call in which the host waits"),
    Column("operator", pl.String, None, "outermost operator around it; null: called outside of operators"),
    Column("file", pl.String, None, "file of the user's code; null: not recorded"),
    Column("line", pl.Int64, None, "line of the user's code; null: not recorded"),
    Column("function", pl.String, None, "function of that line"),
    Column("text", pl.String, None, "source line; null: no sample of the same run has seen it"),
    Column("calls", pl.Int64, "count", "how often"),
)
"""The first columns of every table about such calls: a kind of call from one operator and line."""

_GROUP = ("rank", "call", "operator", "file", "line")
_PROFILER = r"torch[/\\](?:profiler|autograd[/\\]profiler)"


def tree_with_calls(run: Run) -> HostTree:
    """The host tree; raises MissingData if it holds no call of a device's runtime or driver."""
    try:
        tree = host_tree(run)
    except MissingData as missing:
        raise MissingData("calls of the device's runtime", how=RECORD_TRACE_ON_GPU) from missing
    if not tree.calls.any():
        raise MissingData("calls of the device's runtime", how=RECORD_TRACE_ON_GPU)
    return tree


def calls_in_order(tree: HostTree) -> Ints:
    """Rows of the tree that are calls, thread by thread in order of time."""
    rows = np.flatnonzero(tree.calls)
    return rows[np.lexsort((tree.frame["start"].to_numpy()[rows], tree.frame["track"].to_numpy()[rows]))]


def of_the_job(run: Run, calls: pl.DataFrame) -> pl.DataFrame:
    """Calls (rank, owner, waits, start, end) without the profiler's own at the edges of what it records.

    Those are calls outside of marked steps; without step markers, synchronizations (`waits`) in no operator before the
    first or after the last launch.
    """
    markers = step_markers(run)
    parts = [
        _in_steps(part, markers.filter(pl.col("rank") == rank))
        if rank in markers["rank"]
        else _between_launches(run, part)
        for rank, part in by_rank(calls).items()
    ]
    return pl.concat([calls.head(0), *parts])


def by_place(run: Run, tree: HostTree, calls: pl.DataFrame, *more: pl.Expr, **named: pl.Expr) -> pl.DataFrame:
    """One row for each kind of call from one operator and line, as PLACE, with what `more` makes of its calls.

    `calls` has rank, row (of the tree), call, blocked and what `more` needs; `total` is the sum of `blocked` in ns,
    `per_step` that sum for each traced step. Calls from the profiler's own code are left out.
    """
    rows = calls["row"].to_numpy()
    sites = with_texts(run, call_sites(run, tree, rows))
    calls = calls.with_columns(
        pl.Series("operator", _operators(tree, rows), dtype=pl.String),
        *site_table(sites),
        pl.Series("stack", [";".join(site.frames) or None for site in sites], dtype=pl.String),
    ).filter(~pl.col("stack").str.contains(_PROFILER).fill_null(False) | pl.col("file").is_not_null())
    found = calls.group_by(_GROUP, maintain_order=True).agg(
        pl.col("function", "text", "stack").first(), *more, calls=pl.len(), total=pl.col("blocked").sum(), **named
    )
    traced = step_markers(run).group_by("rank").agg(traced=pl.len())
    return found.join(traced, on="rank", how="left").with_columns(per_step=quotient(pl.col("total"), pl.col("traced")))


def places_of(rows: pl.DataFrame, most: int) -> tuple[Place, ...]:
    """The places of the first rows (file, line, function, text) that have one."""
    known = rows.filter(pl.col("file").is_not_null() & pl.col("line").is_not_null()).head(most)
    found = known.select("file", "line", pl.col("function", "text").fill_null("")).iter_rows()
    return tuple(Place(file=file, line=line, symbol=function, text=text) for file, line, function, text in found)


def busy_of(run: Run) -> dict[int, Spans]:
    """For each rank with device work, when any of its devices works."""
    try:
        work = launches(run).work
    except MissingData:
        return {}
    return {rank: union(spans(part)) for rank, part in by_rank(work).items()}


def launch_starts(run: Run, rank: int) -> Ints:
    """Starts of the calls of a rank that launched device work, in order."""
    try:
        found = launches(run)
    except MissingData:
        return np.empty(0, dtype=np.int64)
    if found.tree is None:
        return np.empty(0, dtype=np.int64)
    launched = np.zeros(found.tree.frame.height, dtype=np.bool_)
    launched[found.call[found.call >= 0]] = True
    of_rank = (found.tree.frame["rank"] == rank).to_numpy()
    return np.sort(found.tree.frame["start"].to_numpy()[launched & of_rank], kind="stable")


def _in_steps(calls: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    step = np.searchsorted(steps["start"].to_numpy(), calls["start"].to_numpy(), side="right") - 1
    inside = (step >= 0) & (calls["end"].to_numpy() <= steps["end"].to_numpy()[np.maximum(step, 0)])
    return calls.filter(pl.Series(inside))


def _between_launches(run: Run, calls: pl.DataFrame) -> pl.DataFrame:
    starts = launch_starts(run, calls["rank"][0])
    if not len(starts):
        return calls.filter(pl.col("owner") >= 0)
    return calls.filter((pl.col("owner") >= 0) | ~pl.col("waits") | pl.col("start").is_between(starts[0], starts[-1]))


def _operators(tree: HostTree, rows: Ints) -> list[str | None]:
    """For each call, the outermost operator around it that is not autograd's, else the innermost operator."""
    parent = tree.nesting.parent
    names, operator = tree.frame["name"], tree.operators
    of_autograd = tree.passing(pl.col("name").str.contains(r"^(?:autograd|torch::autograd)::|Backward\d*$"))
    best, around = np.full(len(rows), -1, dtype=np.int64), tree.owner[rows]
    fallback = np.full(len(rows), -1, dtype=np.int64)
    while (around >= 0).any():
        held = around >= 0
        best = np.where(held & operator[around] & ~of_autograd[around], around, best)
        fallback = np.where((fallback < 0) & held & operator[around], around, fallback)
        around = np.where(held, parent[around], -1)
    chosen = np.where(best >= 0, best, fallback)
    return [names[row] if row >= 0 else None for row in chosen.tolist()]
