"""Lines of the user's code by the time they take in a steady step, from stack samples of the running job.

A row is one line in one phase, with one library call below it and one kind of work. The line is the innermost frame of
the user's own code in each sample. `time` is the sampled share of the rank's steady steps times their mean duration.
`share_low` is the lower end of the 95 % Wilson interval of `share`: a line seen twice may be chance. `leaf` is the
innermost frame of all in most of the samples. `work` is input (waiting for the loader), model (torch computes or
dispatches), host (Python, files, other libraries), collector (garbage collector) or unclear. Unclear is a line inside
the model without a frame below it: operators and Python look alike there.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import quotient
from stepscope.analyses.steps.lib.samples import SAMPLED_LINE, bounds, most_often, steady_samples
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "lines"]

_KEY = ["rank", "phase", "file", "line", "function", "call", "work"]
COLUMNS = (
    Column("rank", pl.Int32, None, "rank"),
    Column("phase", pl.String, None, "data_wait, forward, backward, optimizer or other"),
    *SAMPLED_LINE,
    Column("collector", pl.Boolean, None, "true: the garbage collector was running"),
    Column("work", pl.String, None, "input, model, host, collector or unclear"),
    Column("samples", pl.Int64, "count", "samples"),
    Column("time", pl.Int64, "ns", "time per steady step"),
    Column("share", pl.Float64, "ratio", "share of the step"),
    Column("share_low", pl.Float64, "ratio", "lower end of the 95 % interval of the share"),
)


def compute(run: Run) -> pl.DataFrame:
    samples = steady_samples(run)
    mean = steady_steps(run).group_by("rank").agg(pl.col("duration").mean().alias("mean"))
    table = samples.group_by(_KEY, maintain_order=True).agg(
        most_often("leaf"),
        most_often("expression"),
        pl.col("text").first(),
        pl.col("collector").any(),
        pl.len().cast(pl.Int64).alias("samples"),
        pl.col("weight").sum(),
    )
    table = table.join(mean, on="rank").with_columns(
        quotient(pl.col("weight"), pl.col("weight").sum().over("rank")).alias("share")
    )
    table = table.with_columns(
        (pl.col("share") * pl.col("mean")).round().cast(pl.Int64).alias("time"),
        bounds(pl.col("share"), pl.col("samples").sum().over("rank"))[0].alias("share_low"),
    )
    order = ["rank", "time", "file", "line", "phase", "call", "work"]
    ordered = table.sort(order, descending=[False, True, *[False] * 5], nulls_last=True)
    return ordered.select([column.name for column in COLUMNS])


LEADING = ("file", "line", "share", "time", "function", "text", "work", "phase", "leaf", "call")
ANALYSIS = lines = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
