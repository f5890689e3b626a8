"""Collectives of all ranks, matched across ranks.

One row is a collective of a rank; `match` is the same number on all ranks of one collective. Times are ns on the clock
of the rank's own host. A collective lasts longest on the rank that came first, because it waits for the others:
`transfer` is the smallest duration of the match, which TraceLens calls latency. `waiting` is the rest of the row's own
duration. Both are differences of times of one clock, so they need no clocks that agree. Ranks whose traces are not at
hand are not in the match: compare `ranks` with `group_size`; `transfer` is then an upper bound.

Matched by `sequence`: process group and sequence number. By `order`: place in the step, on ranks whose lists of
collectives in that step are the same in name, type and elements. By `unique`: the only one of its name, type and
elements in the step, on ranks whose lists differ. What does not fit is not matched, and `unmatched` says why:

- `alone`: no other rank's trace holds it
- `other-count`, `other-order`: the ranks' lists differ (a window cut at an end), or the number of kernels does
- `other-name`: another rank has another collective under this number
- `ambiguous`: without steps, the lists differ and fit at several shifts
- `no-peer`: point-to-point, and the trace does not say with whom
- `no-name`: neither arguments nor names tell what it is
- `several-devices`: one process drives several devices

`bytes` is the size S of nccl-tests: the larger of what goes in and what comes out. Bandwidths are theirs too. That of
the algorithm is S / transfer. Bus bandwidth is this times a factor. It is 2(n-1)/n for an all-reduce of n ranks, and 1
for most others. For all-gather, reduce-scatter, all-to-all, gather and scatter it is (n-1)/n. GB is 10^9.
"""

import polars as pl

from stepscope.analyses.communication.lib.collective_calls import collective_calls, launches_collectives
from stepscope.analyses.communication.lib.collective_matching import matched
from stepscope.analyses.communication.lib.collective_names import ELEMENT_BYTES
from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE, RECORD_TRACE_ON_GPU, shaped
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("match", pl.Int64, None, "number of the collective, the same on all its ranks; null: not matched"),
    Column("collective", pl.String, None, "all_reduce, all_gather, reduce_scatter, broadcast, send, …"),
    Column("bytes", pl.Int64, "bytes", "the larger of what goes in and what comes out"),
    Column("ranks", pl.Int64, "count", "ranks that were matched; 1: none but this one"),
    Column("start", pl.Int64, "ns", "start on this rank's clock", "trace"),
    Column("end", pl.Int64, "ns", "end on this rank's clock", "trace"),
    Column("duration", pl.Int64, "ns", "end - start"),
    Column("transfer", pl.Int64, "ns", "smallest duration over the matched ranks"),
    Column("waiting", pl.Int64, "ns", "duration - transfer: the time for which this rank waits for others"),
    Column("algorithm_bandwidth", pl.Float64, "GB/s", "bytes / transfer; null: not matched, or bytes not known"),
    Column("bus_bandwidth", pl.Float64, "GB/s", "what that asks of each rank's link; null: group_size not known"),
    Column("step", pl.Int64, None, "traced step that launched it"),
    Column("group", pl.String, None, "process group; null: not recorded"),
    Column("group_size", pl.Int64, "count", "ranks in the group"),
    Column("key", pl.Int64, None, "sequence number, else place in the step"),
    Column("matched_by", pl.String, None, "sequence, order or unique; null: not matched"),
    Column("unmatched", pl.String, None, "why it is not matched"),
    Column("kernels", pl.Int64, "count", "kernels that it is made of; 1 for an annotation on the host"),
    Column("device", pl.Int32, None, "index of the device; null: on the host, by gloo"),
    Column("stream", pl.String, None, "stream or queue"),
    Column("dtype", pl.String, None, "element type"),
    Column("in_elements", pl.Int64, "count", "elements that go in"),
    Column("out_elements", pl.Int64, "count", "elements that come out"),
    Column("group_ranks", pl.String, None, "ranks of the group, JSON as the source writes it"),
)
_HOW = f"{RECORD_TRACE}, for a job of several ranks, and open the folder that holds the traces of all ranks"
_NO_KERNELS = (
    f"nothing if the process groups have one rank only, for which NCCL copies at most; else {RECORD_TRACE_ON_GPU}, "
    "with the activities of the device"
)
_KEEPS_ITS_PART = ("all_gather", "reduce_scatter", "all_to_all", "all_to_allv", "gather", "scatter")
_NO_DATA = "barrier"
# Where only annotations tell the size, these tell it of one side, or of the root.
_ONE_SIDED = ("gather", "scatter")


def compute(run: Run) -> pl.DataFrame:
    """Rows for all collectives. Raises MissingData without any."""
    calls = collective_calls(run)
    if calls.is_empty():
        raise _missing(run)
    found = matched(calls).with_columns(_bytes(), duration=pl.col("end") - pl.col("start"))
    hit = pl.col("match").is_not_null()
    transfer = pl.when(hit).then(pl.col("duration").min().over("match"))
    found = found.with_columns(
        transfer=transfer,
        waiting=pl.col("duration") - transfer,
        ranks=pl.when(hit).then(pl.col("rank").n_unique().over("match")).otherwise(1),
    )
    algorithm = pl.when((transfer > 0) & (pl.col("collective") != _NO_DATA)).then(pl.col("bytes") / transfer)
    found = found.with_columns(algorithm_bandwidth=algorithm, bus_bandwidth=algorithm * _bus_factor())
    return shaped(found, COLUMNS).sort("rank", "start", "end", "match")


def _missing(run: Run) -> MissingData:
    if launches_collectives(run):
        return MissingData("kernels of the collectives that the host launches", how=_NO_KERNELS)
    return MissingData("collectives", how=_HOW)


def _bus_factor() -> pl.Expr:
    """The share of the bytes that crosses each rank's link, by nccl-tests' PERFORMANCE.md."""
    ranks, collective = pl.col("group_size"), pl.col("collective")
    others = (ranks - 1) / ranks
    return (
        pl.when(collective == "all_reduce").then(2 * others)
        .when(collective.is_in(_KEEPS_ITS_PART)).then(others)
        .when(ranks.is_not_null()).then(1.0)
    )  # fmt: skip


def _bytes() -> pl.Expr:
    size = pl.col("dtype").replace_strict(ELEMENT_BYTES, default=None, return_dtype=pl.Int64)
    gathered = pl.when(pl.col("collective") == "all_gather").then(pl.col("in_elements") * pl.col("group_size"))
    out = pl.coalesce("out_elements", gathered)
    half_known = out.is_null() & pl.col("collective").is_in(("all_gather", *_ONE_SIDED))
    return pl.when(~half_known).then(pl.max_horizontal("in_elements", out) * size).alias("bytes")


LEADING = (
    "collective",
    "bytes",
    "duration",
    "waiting",
    "bus_bandwidth",
    "transfer",
    "step",
    "ranks",
    "group",
    "start",
    "rank",
)
ANALYSIS = collectives = Analysis(compute=compute, columns=COLUMNS, leading=LEADING)
