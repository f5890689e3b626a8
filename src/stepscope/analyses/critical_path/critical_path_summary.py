"""The critical path by class: where the time of a step goes that decides how long it takes.

One row is a class of segments (see `critical_path`) in a step of a rank. Where step is null, it is the mean of the
rank's steps. Times are ns; those of a step add up to its length.
"""

import polars as pl

from stepscope.analyses.critical_path.critical_path import CLASSES, path_rows
from stepscope.analyses.lib.result_tables import RANK, quotient, shaped
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("step", pl.Int64, None, "number in the step marker; null: mean of all steps"),
    Column("class", pl.String, None, "kind of time, as in `critical_path`"),
    Column("duration", pl.Float64, "ns", "time of the class on the path of the step"),
    Column("share", pl.Float64, "ratio", "its share of the step; of the mean, of all steps together"),
    Column("segments", pl.Int64, "count", "segments of the class; of the mean, in all steps"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, the mean first, then steps in order of time; the largest class first. Raises as `critical_path`."""
    code = pl.col("number").cast(pl.Int64) * len(CLASSES) + pl.col("class").to_physical()  # one number groups fastest
    steps = path_rows(run).group_by(code.alias("code")).agg(
        pl.col("rank").first(), pl.col("number").first().alias("at"), pl.col("step", "class").first(),
        total=pl.col("duration").sum(), segments=pl.len().cast(pl.Int64),
    )  # fmt: skip
    steps = steps.drop("code").with_columns(pl.col("class").cast(pl.String))
    means = steps.group_by("rank", "class").agg(pl.col("total", "segments").sum())
    means = means.join(steps.group_by("rank").agg(steps=pl.col("at").n_unique()), on="rank")
    both = pl.concat([means, steps.with_columns(steps=pl.lit(1, dtype=pl.UInt32))], how="diagonal")
    both = both.with_columns(whole=pl.col("total").sum().over("rank", "at"))
    total = pl.col("total")
    both = both.with_columns(duration=quotient(total, pl.col("steps")), share=quotient(total, pl.col("whole")))
    order = ("rank", "at", "duration", "class")
    return shaped(both.sort(order, descending=[False, False, True, False], nulls_last=False), COLUMNS)


ANALYSIS = critical_path_summary = Analysis(compute=compute, columns=COLUMNS, scope="rank")
