"""Lines that DataLoader workers were at while they made batches, from stack samples taken in the workers.

One row is a line of a loader on a rank, with one library call below it. The line is the innermost frame of the user's
own code, else of the library. `wall` is the sum of the samples, each of which stands for the time since the one before;
`share` is of all sampled time in which a worker of the loader made a batch. `share_low` is the lower end of the 95 %
Wilson interval of `share`: a line seen twice may be chance. With num_workers=0 the process that trains makes the
batches, and `lines` has them under `data_wait`.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import RANK, quotient, shaped
from stepscope.analyses.steps.lib.samples import SAMPLED_LINE, bounds, most_often
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "loader_lines"]

COLUMNS = (
    RANK,
    Column("loader", pl.Int64, None, "number of the DataLoader"),
    *SAMPLED_LINE,
    Column("samples", pl.Int64, "count", "samples"),
    Column("wall", pl.Int64, "ns", "time they stand for, summed over the workers"),
    Column("share", pl.Float64, "ratio", "wall / sampled time of the loader"),
    Column("share_low", pl.Float64, "ratio", "lower end of the 95 % interval of the share"),
)
LEADING = ("rank", "loader", "file", "line", "share", "wall", "samples", "function", "text")
_KEYS = ("rank", "loader", "file", "line", "function", "call")
_LOADER = ("rank", "loader")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, loader and time. Raises MissingData where no line of a worker was sampled."""
    samples = run.optional("worker_stacks")
    if samples.is_empty():
        raise MissingData(
            "lines in DataLoader workers", how="record them: `stepscope run --loader-lines 50 -- COMMAND`"
        )
    rows = samples.sort("rank", "pid", "time").group_by(_KEYS, maintain_order=True).agg(
        most_often("leaf"), most_often("expression"), pl.col("text").first(), pl.len().cast(pl.Int64).alias("samples"),
        pl.col("weight").sum().alias("wall"),
    ).with_columns(share=quotient(pl.col("wall"), pl.col("wall").sum().over(_LOADER))).with_columns(
        share_low=bounds(pl.col("share"), pl.col("samples").sum().over(_LOADER))[0]
    )  # fmt: skip
    order = ("rank", "loader", "wall", "file", "line", "call")
    return shaped(rows.sort(order, descending=[name == "wall" for name in order], nulls_last=True), COLUMNS)


ANALYSIS = loader_lines = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
