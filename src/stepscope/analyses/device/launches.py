"""Launches of device work by the call that makes them: what they cost the host, and how long the work then waits.

One row is the name of a call (cudaLaunchKernel, cuLaunchKernelEx, cudaGraphLaunch, hipLaunchKernel, …).
Only calls that launched work in the trace count; a graph's launch is one call, with all work of the graph. Times are
ns. The delay of a call is the time from its end to the start of its first work, 0 if that starts before. A call is
`short_work` if it takes the host longer than its work takes the device: such work cannot keep a device busy.
`slow_calls` and `late_starts` count outliers by HTA's bounds. Definitions: HTA's launch statistics, in nanoseconds.
"""

import polars as pl

from stepscope.analyses.lib.launched_work import launched_work
from stepscope.analyses.lib.result_tables import RANK, shaped
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("call", pl.String, None, "runtime or driver call"),
    Column("calls", pl.Int64, "count", "calls that launched work"),
    Column("work", pl.Int64, "count", "kernels, copies and sets that they launched"),
    Column("host_total", pl.Int64, "ns", "time of the host in these calls"),
    Column("host_mean", pl.Float64, "ns", "mean duration of a call"),
    Column("host_max", pl.Int64, "ns", "longest call"),
    Column("device_total", pl.Int64, "ns", "sum of the durations of their work"),
    Column("delay_mean", pl.Float64, "ns", "mean delay from the end of a call to the start of its work"),
    Column("delay_p50", pl.Float64, "ns", "median delay"),
    Column("delay_p99", pl.Float64, "ns", "delay that one call in a hundred exceeds"),
    Column("delay_max", pl.Int64, "ns", "longest delay"),
    Column("short_work", pl.Int64, "count", "calls that take longer than the work they launch"),
    Column("slow_calls", pl.Int64, "count", "calls of more than 50 µs"),
    Column("late_starts", pl.Int64, "count", "calls whose work starts more than 100 µs after their end"),
)
_SLOW_CALL = 50_000  # ns: HTA's runtime_cutoff
_LATE_START = 100_000  # ns: HTA's launch_delay_cutoff


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, the most calls first. Raises MissingData without device work or without calls that launched it."""
    work = launched_work(run)
    each = work.group_by("call").agg(
        pl.col("rank", "call_name").first(),
        work=pl.len(),
        host=(pl.col("call_end") - pl.col("call_start")).first(),
        delay=(pl.col("start").min() - pl.col("call_end").first()).clip(0),
        device=(pl.col("end") - pl.col("start")).sum(),
    )
    host, delay = pl.col("host"), pl.col("delay")
    rows = each.group_by("rank", call="call_name").agg(
        calls=pl.len(),
        work=pl.col("work").sum(),
        host_total=host.sum(),
        host_mean=host.mean(),
        host_max=host.max(),
        device_total=pl.col("device").sum(),
        delay_mean=delay.mean(),
        delay_p50=delay.quantile(0.5, "linear"),
        delay_p99=delay.quantile(0.99, "linear"),
        delay_max=delay.max(),
        short_work=(pl.col("device") < host).sum(),
        slow_calls=(host > _SLOW_CALL).sum(),
        late_starts=(delay > _LATE_START).sum(),
    )
    rows = rows.with_columns(pl.col("call").cast(pl.String))
    return shaped(rows.sort("rank", "calls", "call", descending=[False, True, False]), COLUMNS)


LEADING = (
    "call",
    "calls",
    "work",
    "host_total",
    "host_mean",
    "delay_mean",
    "delay_p99",
    "short_work",
    "slow_calls",
    "late_starts",
)
ANALYSIS = launches = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
