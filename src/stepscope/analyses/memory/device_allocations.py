"""Calls that take memory from a device's driver or give it back, and the device time that they waste.

One row is a kind of call from one operator and line. Times are ns, summed over its calls. Calls allocate or free device
memory or pinned host memory, or map virtual memory for expandable segments. A caching allocator makes them while it
warms up and never again, unless memory is full, fragmented, or emptied on purpose. Allocations in the order of a stream
(`cudaMallocAsync`) come from a pool of the driver and do not count.

`stalled` is the device time that vanishes with the calls. A free waits until the device has done all its work. The
device then has nothing to do until the host launches again. An allocation delays the host, which matters while the
device is idle. Calls before the same launch are taken together. They count while all devices of the rank idle, from the
first call to that launch or the work after it. They never count for longer than the calls took. Calls outside of marked
steps and from the profiler's own code are left out.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import HostTree
from stepscope.analyses.lib.markers import step_markers
from stepscope.analyses.lib.result_tables import shaped, table
from stepscope.analyses.lib.runtime_calls import (
    PLACE,
    busy_of,
    by_place,
    calls_in_order,
    launch_starts,
    of_the_job,
    tree_with_calls,
)
from stepscope.core.intervals import Spans, overlap_each
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    *PLACE,
    Column("total", pl.Int64, "ns", "time the host spent in the calls"),
    Column("per_step", pl.Float64, "ns", "that time per traced step; null without step markers"),
    Column("steps", pl.Int64, "count", "traced steps with such a call; 0 without step markers"),
    Column("stalled", pl.Int64, "ns", "idle device time that vanishes with the calls"),
    Column("stack", pl.String, None, "frames of the first call, innermost first, separated by ;"),
)
_CALL = (
    r"^(?:cuda|hip|musa)(?:Ext)?(?:Malloc|Free|Host(?:Alloc|Malloc|Free|Register|Unregister))"
    r"|^(?:cu|hip)Mem(?:Alloc|Free|Host(?:Alloc|Register|Unregister)|Create|Release|Map|Unmap|SetAccess)"
)
_OF_A_POOL = r"Async|FromPool"
Ints = npt.NDArray[np.int64]


def compute(run: Run) -> pl.DataFrame:
    """Rows by stalled, then total, largest first. Raises MissingData without calls of a device's runtime."""
    tree = tree_with_calls(run)
    calls = of_the_job(run, _calls(tree))
    if calls.is_empty():
        return table((), COLUMNS)
    calls = calls.with_columns(step=_steps(run, calls), stalled=pl.Series(_stalls(run, calls), dtype=pl.Int64))
    rows = by_place(run, tree, calls, pl.col("stalled").sum(), steps=pl.col("step").drop_nulls().n_unique())
    return shaped(rows.sort("rank", "stalled", "total", "call", descending=[False, True, True, False]), COLUMNS)


def _calls(tree: HostTree) -> pl.DataFrame:
    """The outermost such calls in order of time: row, rank, owner, call, start, end, blocked, waits."""
    rows = calls_in_order(tree)
    is_one = pl.col("name").str.contains(_CALL) & ~pl.col("name").str.contains(_OF_A_POOL)
    rows = rows[tree.passing(is_one)[rows]]
    found = tree.frame[rows].select(
        "rank", "track", "start", "end", call="name", blocked=pl.col("end") - pl.col("start"), waits=pl.lit(False)
    )
    found = found.with_columns(row=pl.Series(rows), owner=pl.Series(tree.owner[rows]))
    inside = pl.col("end") <= pl.col("end").cum_max().shift(1).over("rank", "track")  # the driver's, in the runtime's
    return found.filter(~inside.fill_null(False)).drop("track").sort("rank", "start", maintain_order=True)


def _steps(run: Run, calls: pl.DataFrame) -> pl.Series:
    """The start of the step that each call lies in, null outside of steps."""
    steps = step_markers(run).select("rank", "start", step="start").sort("start")
    return calls.select("rank", "start").join_asof(steps, on="start", by="rank", check_sortedness=False)["step"]


def _stalls(run: Run, calls: pl.DataFrame) -> Ints:
    """For each call, its part of the device time that the calls before the same launch waste."""
    stalls = np.zeros(calls.height, dtype=np.int64)
    ranks = calls["rank"].to_numpy()
    for rank, busy in busy_of(run).items():
        rows = np.nonzero(ranks == rank)[0]
        if len(rows) and len(busy):
            stalls[rows] = _of_rank(calls[rows], busy, launch_starts(run, rank))
    return stalls


def _of_rank(calls: pl.DataFrame, busy: Spans, launched: Ints) -> Ints:
    starts, lasting = calls["start"].to_numpy(), calls["blocked"].to_numpy()
    following = np.searchsorted(launched, calls["end"].to_numpy())
    first = np.flatnonzero(np.concatenate(([True], following[1:] != following[:-1])))
    of_group = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(starts))))
    idle = np.stack((busy[:-1, 1], busy[1:, 0]), axis=1)
    wasted = overlap_each(_windows(starts[first], following[first], busy, launched), idle)
    before = np.cumsum(lasting) - lasting
    before -= before[first][of_group]
    shares: Ints = np.clip(wasted[of_group] - before, 0, lasting)  # no more than the calls took, the first ones first
    return shares


def _windows(starts: Ints, following: Ints, busy: Spans, launched: Ints) -> Spans:
    """For each group, from its first call to the next launch, or to the next group.

    Where the device is idle at that launch, to its first work after that.
    """
    known = following < len(launched)
    launch = np.where(known, np.append(launched, 0)[np.minimum(following, len(launched))], starts)
    work = np.searchsorted(busy[:, 0], launch, side="right")
    idle = (work > 0) & (work < len(busy)) & (busy[np.maximum(work - 1, 0), 1] < launch)
    ends = np.where(known & idle, busy[np.minimum(work, len(busy) - 1), 0], launch)
    ends = np.minimum(ends, np.append(starts[1:], np.iinfo(np.int64).max))
    return np.stack((starts, np.maximum(starts, ends)), axis=1)


LEADING = ("call", "file", "line", "calls", "total", "per_step", "stalled", "steps", "operator", "function", "text")
ANALYSIS = device_allocations = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
