"""Calls in which the host waits for the device, and the device time that they waste.

One row is a kind of call from one operator and line. Times are ns, summed over its calls. Such calls synchronize a
stream, device, context or event, or copy and return when the copy is done. An asynchronous copy counts if a
synchronization follows at once, as in `.item()` and copies to pageable memory. `operator` is the outermost operator
around the call below autograd's own, the one a user would recognize. `file` and `line` are the nearest frame of the
user's code, from Python frames or call stacks where these were recorded.

`bubble` is the device time that vanishes with the call. If all device work of the rank ends before the next launch, the
device stays idle until the host has launched again. Without the call the host would get there earlier. So a bubble is
the idle time up to the next work, but no longer than the call. Calls outside of marked steps and from the profiler's
own code are left out: the profiler synchronizes there itself. Without step markers, so are synchronizations in no
operator before the first or after the last launch.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import HostTree
from stepscope.analyses.lib.result_tables import shaped
from stepscope.analyses.lib.runtime_calls import (  # fmt: skip
    PLACE,
    busy_of,
    by_place,
    calls_in_order,
    launch_starts,
    of_the_job,
    tree_with_calls,
)
from stepscope.core.intervals import Spans
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    *PLACE,
    Column("total", pl.Int64, "ns", "time the host was blocked"),
    Column("per_step", pl.Float64, "ns", "time the host was blocked per traced step; null without step markers"),
    Column("bubble", pl.Int64, "ns", "idle device time that vanishes with the calls"),
    Column("stack", pl.String, None, "frames of the first call, innermost first, separated by ;"),
)
_WAIT = r"^(?:cuda|cu|hip|musa)(?:Stream|Device|Event|Ctx|Thread)Synchronize(?:_\w+)?$"
_BLOCKING_COPY = r"^(?:cuda|cu|hip|musa)Memcpy"
_NO_BLOCKING_COPY = r"Async|Peer|DtoD"
_ASYNC_COPY = r"^(?:cuda|cu|hip|musa)Memcpy\w*Async"
Ints = npt.NDArray[np.int64]


def compute(run: Run) -> pl.DataFrame:
    """Rows by bubble, then time blocked, largest first. Raises MissingData without calls of a device's runtime."""
    tree = tree_with_calls(run)
    syncs = of_the_job(run, _syncs(tree))
    syncs = syncs.with_columns(bubble=pl.Series(_bubbles(run, syncs), dtype=pl.Int64))
    rows = by_place(run, tree, syncs, pl.col("bubble").sum())
    return shaped(rows.sort("rank", "bubble", "total", "call", descending=[False, True, True, False]), COLUMNS)


def _syncs(tree: HostTree) -> pl.DataFrame:
    """Waiting calls in order of time: row, rank, call, start, end, blocked. A copy and its wait are one."""
    name = pl.col("name")
    is_copy = name.str.contains(_BLOCKING_COPY) & ~name.str.contains(_NO_BLOCKING_COPY)
    rows = calls_in_order(tree)
    waits, copies, asynchronous = (
        tree.passing(test)[rows] for test in (name.str.contains(_WAIT), is_copy, name.str.contains(_ASYNC_COPY))
    )
    track, owner = tree.frame["track"].to_numpy()[rows], tree.owner[rows]
    paired = np.zeros(len(rows), dtype=np.bool_)
    paired[:-1] = asynchronous[:-1] & waits[1:] & (track[:-1] == track[1:]) & (owner[:-1] == owner[1:])
    follows = np.concatenate(([False], paired[:-1]))
    at = np.flatnonzero((waits & ~follows) | copies | paired)
    after = np.where(paired[at], rows[np.minimum(at + 1, len(rows) - 1)], -1)
    found = tree.frame.select("rank", "name", "start", "end")
    calls, second = found[rows[at]], found.select("name", "start", "end")[np.maximum(after, 0)]
    calls = calls.with_columns(
        row=pl.Series(rows[at]), owner=pl.Series(owner[at]), waits=pl.Series(waits[at]), paired=pl.Series(after >= 0),
    ).hstack(second.rename(lambda column: f"second_{column}"))  # fmt: skip
    with_second, blocked_alone = pl.col("paired"), (pl.col("end") - pl.col("start")).alias("blocked")
    calls = calls.select(
        "row", "rank", "owner",
        pl.when(with_second).then(name + " and " + pl.col("second_name")).otherwise(name).alias("call"),
        "start",
        pl.when(with_second).then("second_end").otherwise("end").alias("end"),
        blocked_alone + pl.when(with_second).then(pl.col("second_end") - pl.col("second_start")).otherwise(0),
        "waits",
    )  # fmt: skip
    return calls.sort("rank", "start", maintain_order=True)


def _bubbles(run: Run, syncs: pl.DataFrame) -> Ints:
    """For each call, the idle time of all devices of its rank that it causes."""
    bubbles = np.zeros(syncs.height, dtype=np.int64)
    ranks = syncs["rank"].to_numpy()
    for rank, busy in busy_of(run).items():
        rows = np.nonzero(ranks == rank)[0]
        bubbles[rows] = _of_rank(syncs[rows], busy, launch_starts(run, rank))
    return bubbles


def _of_rank(syncs: pl.DataFrame, busy: Spans, launched: Ints) -> Ints:
    idle = np.stack((busy[:-1, 1], busy[1:, 0]), axis=1)
    if not len(idle) or not len(launched):
        return np.zeros(syncs.height, dtype=np.int64)
    starts, ends = syncs["start"].to_numpy(), syncs["end"].to_numpy()
    gap = np.searchsorted(idle[:, 0], starts)
    following = np.searchsorted(launched, ends)
    known = (gap < len(idle)) & (following < len(launched))
    gap, following = np.minimum(gap, len(idle) - 1), np.minimum(following, len(launched) - 1)
    caused = known & (idle[gap, 0] <= launched[following])
    lengths = np.minimum(idle[gap, 1] - idle[gap, 0], syncs["blocked"].to_numpy())
    first = np.concatenate(([True], gap[1:] != gap[:-1]))  # a gap that two calls meet counts once
    return np.where(caused & first, lengths, 0)


LEADING = ("call", "file", "line", "calls", "total", "per_step", "bubble", "operator", "text", "function")
ANALYSIS = blocking_syncs = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
