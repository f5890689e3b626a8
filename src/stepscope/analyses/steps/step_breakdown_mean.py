"""The mean step of each rank by cause: the average of step_breakdown, as the TensorBoard plugin's overview shows it.

One row is a rank. Times are ns, arithmetic means over the steps that step_breakdown keeps; the eight causes add up to
`duration`. Shares are the causes' parts of it, as in that plugin's pie.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import RANK, quotient, shaped
from stepscope.analyses.steps.step_breakdown import CAUSES, step_breakdown
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

_ALL = (*CAUSES, "other")
_MEANING = {column.name: column.meaning for column in step_breakdown.columns}
COLUMNS = (
    RANK,
    Column("steps", pl.Int64, "count", "steps that the means are over"),
    Column("duration", pl.Float64, "ns", "mean length of a step"),
    *(Column(name, pl.Float64, "ns", f"mean: {_MEANING[name]}") for name in _ALL),
    *(Column(f"{name}_share", pl.Float64, "ratio", f"{name} / duration") for name in _ALL),
)


def compute(run: Run) -> pl.DataFrame:
    """One row per rank. Raises MissingData in a run without step markers and operators."""
    sums = step_breakdown(run).group_by("rank", maintain_order=True).agg(pl.col(_ALL).sum(), steps=pl.len())
    steps = pl.col("steps")
    means = sums.with_columns(quotient(pl.col(_ALL), steps), duration=quotient(pl.sum_horizontal(_ALL), steps))
    share = {
        f"{name}_share": pl.when(pl.col("duration") > 0).then(quotient(pl.col(name), pl.col("duration")))
        for name in _ALL
    }
    return shaped(means.with_columns(**share), COLUMNS)


LEADING = (
    "steps",
    "duration",
    "kernel_share",
    "communication_share",
    "memcpy_share",
    "runtime_share",
    "dataloader_share",
    "cpu_exec_share",
    "other_share",
)
ANALYSIS = step_breakdown_mean = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
