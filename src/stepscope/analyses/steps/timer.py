"""Paddle's timer-only summary: cost of reading, cost of a step, samples per second.

One row is a rank. Costs are ns, ips is samples per second. reader_cost is the data wait: the time in the loader's
next(). batch_cost is the whole step. ips is samples / batch_cost. reader_ratio is mean reader_cost / mean batch_cost.
Averages, maxima and minima are over steady steps; `left_out` counts the others. ips_avg is all samples over all time,
of the steps whose samples are known. reader_* is null where no loader was seen, ips_* where samples were not counted.
Definition: paddle.profiler's timer; its average of batch_cost divides by one step too few (3.3.1), which is not copied.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import RANK, quotient, shaped
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.analyses.steps.steps import steps
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("steps", pl.Int64, "count", "steady steps, which the figures are from"),
    Column("left_out", pl.Int64, "count", "warm-up and traced steps left out"),
    Column("reader_cost_avg", pl.Float64, "ns", "mean wait for the loader"),
    Column("reader_cost_max", pl.Int64, "ns", "longest wait for the loader"),
    Column("reader_cost_min", pl.Int64, "ns", "shortest wait for the loader"),
    Column("batch_cost_avg", pl.Float64, "ns", "mean step"),
    Column("batch_cost_max", pl.Int64, "ns", "longest step"),
    Column("batch_cost_min", pl.Int64, "ns", "shortest step"),
    Column("ips_avg", pl.Float64, None, "samples per second over all steps"),
    Column("ips_max", pl.Float64, None, "samples per second of the fastest step"),
    Column("ips_min", pl.Float64, None, "samples per second of the slowest step"),
    Column("reader_ratio", pl.Float64, "ratio", "reader_cost_avg / batch_cost_avg"),
)
_SECOND = 1_000_000_000


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank. Raises MissingData without steady steps."""
    everything = steps(run).group_by("rank").agg(all=pl.col("weight").sum())
    reader, batch = pl.col("data_wait"), pl.col("duration")
    per_step = pl.when(batch > 0).then(pl.col("samples") * _SECOND / batch)
    counted = pl.col("samples").is_not_null()
    time_counted = batch.filter(counted).sum()
    timed = steady_steps(run).group_by("rank").agg(
        steps=pl.col("weight").sum(),
        reader_cost_avg=reader.mean(), reader_cost_max=reader.max(), reader_cost_min=reader.min(),
        batch_cost_avg=batch.mean(), batch_cost_max=batch.max(), batch_cost_min=batch.min(),
        ips_avg=pl.when(time_counted > 0).then(pl.col("samples").sum() * _SECOND / time_counted),
        ips_max=per_step.max(), ips_min=per_step.min(),
    )  # fmt: skip
    ratio = pl.when(pl.col("batch_cost_avg") > 0).then(quotient(pl.col("reader_cost_avg"), pl.col("batch_cost_avg")))
    rows = timed.join(everything, on="rank", how="left").with_columns(
        left_out=pl.col("all") - pl.col("steps"), reader_ratio=ratio
    )
    return shaped(rows.sort("rank"), COLUMNS)


LEADING = ("steps", "batch_cost_avg", "reader_cost_avg", "reader_ratio", "ips_avg", "batch_cost_max", "reader_cost_max")
ANALYSIS = timer = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
