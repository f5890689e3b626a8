"""Use of the machine while the job ran: processors, memory, devices.

One row is a quantity sampled about once a second beside the job. Sampled are system CPU, job CPU, job memory, and
utilization, memory and power of each device. Values are in `unit`: a ratio from 0 to 1, cores (1.0 is one core busy),
bytes or watts. Source of the idea: Paddle's device summary, which gives means only.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import shaped
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    Column("what", pl.String, None, "quantity"),
    Column("unit", pl.String, None, "unit of its values: ratio, cores, bytes or watts"),
    Column("samples", pl.Int64, "count", "how often it was read"),
    Column("mean", pl.Float64, None, "mean, in `unit`"),
    Column("max", pl.Float64, None, "largest value, in `unit`"),
    Column("min", pl.Float64, None, "smallest value, in `unit`"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows in the order they were first sampled. Raises MissingData without samples of the system."""
    samples = run.table("system", how="run it with `stepscope run -- COMMAND` for more than a second")
    value = pl.col("value")
    figures = {"samples": value.count(), "mean": value.mean(), "max": value.max(), "min": value.min()}
    return shaped(samples.group_by("what", "unit", maintain_order=True).agg(**figures), COLUMNS)


ANALYSIS = device_summary = Analysis(compute=compute, columns=COLUMNS)
