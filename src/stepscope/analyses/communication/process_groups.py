"""What each process group communicates: volume, time, waiting, and how much of it no computing hides.

One row is a collective operation of a process group on a rank. Times are ns, of the recorded window. `duration` is the
sum over its collectives; `transfer` and `waiting` are its two parts where they were matched with other ranks'.
`exposed` is the length of the union of the row's kernels in which no kernel of the rank computes. It is null for gloo,
whose transfers run on the host. `bus_bandwidth` is that of all matched collectives together. `description` is the job's
name for the group, from the header of the trace or the arguments of its kernels. `parallel` is what that means: data,
tensor, pipeline, expert, context or sequence parallel, several of them (`tensor and data`), or world, the group of all
ranks. A group without a description that only sends and receives is a pipeline's (`parallel_by` pattern).
"""

import numpy as np
import polars as pl

from stepscope.analyses.communication.collectives import collectives
from stepscope.analyses.communication.lib.collective_calls import rank_calls
from stepscope.analyses.communication.lib.group_config import group_config
from stepscope.analyses.communication.lib.parallelism import with_parallel
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.result_tables import RANK, shaped
from stepscope.core.intervals import spans, subtract, total, union
from stepscope.core.run import Analysis, Run, stack
from stepscope.core.schema import Column, DataType

COLUMNS = (
    RANK,
    Column("group", pl.String, None, "process group; null: not recorded"),
    Column("description", pl.String, None, "purpose of the group, as the job names it"),
    Column("parallel", pl.String, None, "what the group divides the work by; null: cannot be told"),
    Column("parallel_by", pl.String, None, "what told it: description or pattern"),
    Column("collective", pl.String, None, "all_reduce, all_gather, reduce_scatter, …"),
    Column("group_size", pl.Int64, "count", "ranks in the group"),
    Column("calls", pl.Int64, "count", "collectives"),
    Column("matched", pl.Int64, "count", "of these, matched with other ranks'"),
    Column("bytes", pl.Int64, "bytes", "sum of their sizes; null: not known"),
    Column("duration", pl.Int64, "ns", "sum of their durations"),
    Column("transfer", pl.Int64, "ns", "of the matched ones: sum of the shortest durations over the ranks"),
    Column("waiting", pl.Int64, "ns", "of the matched ones: sum of what this rank waits for others"),
    Column("exposed", pl.Int64, "ns", "time with one of them and no computing"),
    Column("bus_bandwidth", pl.Float64, "GB/s", "bytes across each rank's link, over transfer; matched ones"),
)
_KEY = ["rank", "group", "collective"]
_EXPOSED: dict[str, DataType] = {
    "rank": pl.Int32, "group": pl.String, "collective": pl.String, "exposed": pl.Int64,
}  # fmt: skip


def compute(run: Run) -> pl.DataFrame:
    """Rows for all groups with collectives. Raises MissingData without any."""
    hit = pl.col("match").is_not_null()
    speed = pl.col("bus_bandwidth")
    # Bytes per ns are GB/s; what crossed the link is the bandwidth of each collective times its transfer.
    crossed, over = (speed * pl.col("transfer")).sum(), pl.col("transfer").filter(speed.is_not_null()).sum()
    rows = collectives(run).group_by(_KEY).agg(
        pl.col("group_size").max(),
        pl.col("duration", "transfer", "waiting").sum(),
        calls=pl.len(),
        matched=hit.sum(),
        bytes=pl.when(pl.col("bytes").is_not_null().all()).then(pl.col("bytes").sum()),
        bus_bandwidth=pl.when(over > 0).then(crossed / over),
    )  # fmt: skip
    some = pl.col("matched") > 0
    rows = rows.with_columns(pl.when(some).then(name).alias(name) for name in ("transfer", "waiting"))
    rows = rows.join(_descriptions(run), on=["rank", "group"], how="left")
    rows = rows.join(run.per_rank(_exposed, stack), on=_KEY, how="left", nulls_equal=True)
    return shaped(with_parallel(rows), COLUMNS).sort(_KEY)


def _descriptions(run: Run) -> pl.DataFrame:
    """What the job calls each group of a rank: by the header of the trace, else by the arguments of its kernels."""
    listed = group_config(run).select("rank", "group", "description")
    told = rank_calls(run).select("rank", "group", description="group_description")
    known = pl.concat((listed, told)).drop_nulls()
    return known.unique(["rank", "group"], keep="first", maintain_order=True)


def _exposed(run: Run) -> pl.DataFrame:
    """For each rank, group and collective with kernels, the time that no computing hides."""
    calls = rank_calls(run).drop_nulls("device")
    if calls.is_empty():
        return pl.DataFrame(schema=_EXPOSED)
    computing = device_work(run).filter(pl.col("role") == "compute")
    by_device = {(rank, device): union(spans(part)) for (rank, device), part in computing.group_by("rank", "device")}
    nothing = np.empty((0, 2), dtype=np.int64)
    rows = []
    for (rank, group, collective), part in calls.group_by(_KEY):
        exposed = sum(
            total(subtract(spans(own), by_device.get((rank, device), nothing)))
            for (device,), own in part.group_by("device")
        )
        rows.append((rank, group, collective, exposed))
    return pl.DataFrame(rows, schema=_EXPOSED, orient="row")


LEADING = (
    "group",
    "parallel",
    "collective",
    "calls",
    "bytes",
    "duration",
    "exposed",
    "waiting",
    "bus_bandwidth",
    "rank",
)
ANALYSIS = process_groups = Analysis(compute=compute, columns=COLUMNS, leading=LEADING)
