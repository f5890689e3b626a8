"""Calls in which the host waits for the device, and the device time that they waste.

One row is a kind of call from one operator and line. Times are ns, summed over its calls. Such calls are the runtime's
and driver's synchronisations of a stream, device, context or event, copies that return only when they are done, and an
asynchronous copy that a synchronisation follows at once, as `.item()` and copies to pageable memory make. `operator` is
the outermost operator around the call below autograd's own, the one a user would recognise. `file` and `line` are the
nearest frame of the user's code, from Python frames or call stacks where these were recorded.

`bubble` is the device time that vanishes with the call: when all work of the rank's devices ends during the call, or
after it and before the next launch, the device stays idle until the host has launched again. Without the call the
host would get there earlier by as long as it was blocked, so a bubble is the idle time up to the next work, but no
longer than the call. Calls outside of marked steps are left out: the profiler synchronises there itself; so are calls
from the profiler's own code, and, without step markers, synchronisations in no operator before the first or after the
last launch.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses._call_sites import call_sites
from stepscope.analyses._host import CALLS, HostTree, host_tree
from stepscope.analyses._launches import launches
from stepscope.analyses._markers import step_markers
from stepscope.analyses._source_texts import with_texts
from stepscope.analyses._tables import RANK, RECORD_TRACE_ON_GPU, by_rank, shaped
from stepscope.core.errors import MissingData
from stepscope.core.intervals import spans, union
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("call", pl.String, None, "call in which the host waits"),
    Column("operator", pl.String, None, "outermost operator around it; null: called outside of operators"),
    Column("file", pl.String, None, "file of the user's code; null: not recorded"),
    Column("line", pl.Int64, None, "line of the user's code; null: not recorded"),
    Column("function", pl.String, None, "function of that line"),
    Column("text", pl.String, None, "source line; null: no sample of the same run has seen it"),
    Column("calls", pl.Int64, "count", "how often"),
    Column("total", pl.Int64, "ns", "time the host was blocked"),
    Column("per_step", pl.Float64, "ns", "time the host was blocked per traced step; null without step markers"),
    Column("bubble", pl.Int64, "ns", "idle device time that vanishes with the calls"),
    Column("stack", pl.String, None, "frames of the first call, innermost first, separated by ;"),
)
_WAIT = r"^(?:cuda|cu|hip|musa)(?:Stream|Device|Event|Ctx|Thread)Synchronize(?:_\w+)?$"
_BLOCKING_COPY = r"^(?:cuda|cu|hip|musa)Memcpy"
_NO_BLOCKING_COPY = r"Async|Peer|DtoD"
_ASYNC_COPY = r"^(?:cuda|cu|hip|musa)Memcpy\w*Async"
_PROFILER = r"torch[/\\](?:profiler|autograd[/\\]profiler)"
_GROUP = ("rank", "call", "operator", "file", "line")
Ints = npt.NDArray[np.int64]


def compute(run: Run) -> pl.DataFrame:
    """Rows by bubble, then time blocked, largest first. Raises MissingData without calls of a device's runtime."""
    try:
        tree = host_tree(run)
    except MissingData as missing:
        raise MissingData("calls of the device's runtime", how=RECORD_TRACE_ON_GPU) from missing
    if not tree.frame["kind"].is_in(CALLS).any():
        raise MissingData("calls of the device's runtime", how=RECORD_TRACE_ON_GPU)
    syncs = _of_the_job(run, _syncs(tree))
    sites = with_texts(run, call_sites(run, tree, syncs["row"].to_numpy()))
    syncs = syncs.with_columns(
        pl.Series("operator", _operators(tree, syncs["row"].to_numpy()), dtype=pl.String),
        pl.Series("file", [site.file for site in sites], dtype=pl.String),
        pl.Series("line", [site.line for site in sites], dtype=pl.Int64),
        pl.Series("function", [site.function for site in sites], dtype=pl.String),
        pl.Series("text", [site.text for site in sites], dtype=pl.String),
        pl.Series("stack", [";".join(site.frames) or None for site in sites], dtype=pl.String),
        pl.Series("bubble", _bubbles(run, syncs), dtype=pl.Int64),
    ).filter(~pl.col("stack").str.contains(_PROFILER).fill_null(False) | pl.col("file").is_not_null())
    rows = syncs.group_by(_GROUP, maintain_order=True).agg(
        pl.col("function", "text", "stack").first(),
        calls=pl.len(), total=pl.col("blocked").sum(), bubble=pl.col("bubble").sum(),
    )  # fmt: skip
    steps = step_markers(run).group_by("rank").agg(steps=pl.len())
    rows = rows.join(steps, on="rank", how="left").with_columns(per_step=pl.col("total") / pl.col("steps"))
    return shaped(rows.sort("rank", "bubble", "total", "call", descending=[False, True, True, False]), COLUMNS)


def _syncs(tree: HostTree) -> pl.DataFrame:
    """Waiting calls in order of time: row, rank, call, start, end, blocked. A copy and its wait are one."""
    name = pl.col("name")
    is_copy = name.str.contains(_BLOCKING_COPY) & ~name.str.contains(_NO_BLOCKING_COPY)
    rows = _calls_in_order(tree)
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


def _calls_in_order(tree: HostTree) -> Ints:
    """Rows of the tree that are calls, thread by thread in order of time."""
    rows = np.flatnonzero(tree.frame["kind"].is_in(CALLS).to_numpy())
    return rows[np.lexsort((tree.frame["start"].to_numpy()[rows], tree.frame["track"].to_numpy()[rows]))]


def _of_the_job(run: Run, syncs: pl.DataFrame) -> pl.DataFrame:
    """Without the profiler's own synchronisations at the edges of what it records."""
    markers = step_markers(run)
    parts = [
        _in_steps(part, markers.filter(pl.col("rank") == rank))
        if rank in markers["rank"]
        else _between_launches(run, part)
        for rank, part in by_rank(syncs).items()
    ]
    return pl.concat([syncs.head(0), *parts])


def _in_steps(syncs: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    step = np.searchsorted(steps["start"].to_numpy(), syncs["start"].to_numpy(), side="right") - 1
    inside = (step >= 0) & (syncs["end"].to_numpy() <= steps["end"].to_numpy()[np.maximum(step, 0)])
    return syncs.filter(pl.Series(inside))


def _between_launches(run: Run, syncs: pl.DataFrame) -> pl.DataFrame:
    starts = _launch_starts(run, syncs["rank"][0])
    if not len(starts):
        return syncs.filter(pl.col("owner") >= 0)
    return syncs.filter((pl.col("owner") >= 0) | ~pl.col("waits") | pl.col("start").is_between(starts[0], starts[-1]))


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


def _bubbles(run: Run, syncs: pl.DataFrame) -> Ints:
    """For each call, the idle time of all devices of its rank that it causes."""
    bubbles = np.zeros(syncs.height, dtype=np.int64)
    try:
        work = launches(run).work
    except MissingData:
        return bubbles
    ranks = syncs["rank"].to_numpy()
    for rank in np.unique(ranks).tolist():
        rows = np.nonzero(ranks == rank)[0]
        busy = union(spans(work.filter(pl.col("rank") == rank)))
        bubbles[rows] = _of_rank(syncs[rows], busy, _launch_starts(run, rank))
    return bubbles


def _of_rank(syncs: pl.DataFrame, busy: npt.NDArray[np.int64], launched: Ints) -> Ints:
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


def _launch_starts(run: Run, rank: int) -> Ints:
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
    return np.sort(found.tree.frame["start"].to_numpy()[launched & of_rank])


ANALYSIS = blocking_syncs = Analysis(compute=compute, columns=COLUMNS, scope="rank")
