"""Stack samples of the steps that averages are taken from, and how sure a share of them is."""

import polars as pl

from stepscope.analyses.lib.sample_work import gpu_ranks, with_work
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.schema import Column

__all__ = ["HOW", "SAMPLED_LINE", "bounds", "most_often", "steady_samples"]

HOW = "run it with `stepscope run -- COMMAND`, without `--lines none`"

SAMPLED_LINE = (
    Column("file", pl.String, None, "file of the innermost frame of the user's own code"),
    Column("line", pl.Int64, None, "line of that frame"),
    Column("function", pl.String, None, "function of that frame"),
    Column("call", pl.String, None, "library frame directly below: file:line function"),
    Column("leaf", pl.String, None, "innermost frame of all in most samples: file:line function"),
    Column("text", pl.String, None, "source line"),
    Column("expression", pl.String, None, "expression being called in most samples, where Python tells"),
)
"""What a table of sampled lines says of each."""

Z = 1.96  # 95 % of a normal distribution: one in twenty intervals may miss


def steady_samples(run: Run) -> pl.DataFrame:
    """Rows of `stacks` that fell into steady steps, with `work` (see `_work`) and a `file` that is never null.

    Raises MissingData if there is none.
    """
    return run.once(_steady_samples)


def bounds(share: pl.Expr, samples: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Ends of the 95 % Wilson interval (Wilson 1927) of a share seen in so many samples."""
    z2 = Z * Z
    scale = 1 + z2 / samples
    center = (share + z2 / (2 * samples)) / scale
    half = Z / scale * (share * (1 - share) / samples + z2 / (4 * samples * samples)).sqrt()
    return (center - half).clip(0, 1), (center + half).clip(0, 1)


def most_often(column: str) -> pl.Expr:
    """The value of most samples; of equally frequent ones the first in order."""
    return pl.col(column).drop_nulls().mode().sort().first().alias(column)


def _steady_samples(run: Run) -> pl.DataFrame:
    samples = run.table("stacks", how=HOW).filter(pl.col("weight") > 0)
    samples = samples.join(steady_steps(run).select("rank", "step"), on=["rank", "step"], how="semi")
    if samples.is_empty():
        raise MissingData("stack samples of steady steps", how=HOW + ", for more steps")
    return with_work(samples, gpu=gpu_ranks(run))
