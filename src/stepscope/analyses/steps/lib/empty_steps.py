"""The empty step that a stopping profiler marks: no operator runs in it."""

import polars as pl

from stepscope.analyses.lib.tb_step_bounds import adjusted_steps
from stepscope.analyses.steps.steps import steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run, stack

__all__ = ["not_empty"]


def not_empty(run: Run) -> pl.Series:
    """For each row of `adjusted_steps`, whether an operator runs in the step, so that means are over the steps of the
    verdict; true throughout if all steps of the rank are empty. Raises MissingData as `adjusted_steps` does."""
    return run.per_rank(_of_rank, stack)["kept"]


def _of_rank(run: Run) -> pl.DataFrame:
    adjusted = adjusted_steps(run).select("rank", "step", "start").with_row_index("row")
    try:
        marked = steps(run).select("rank", "step", "start", empty=pl.col("tags").list.contains("empty"))
    except MissingData:
        marked = adjusted.clear().select("rank", "step", "start", empty=pl.lit(False))
    # Each new profiler counts its steps anew, so that a rank may have several of one number: the last one that began.
    by_start, own = adjusted.sort("start"), marked.sort("start")
    found = by_start.join_asof(own, on="start", by=["rank", "step"], check_sortedness=False)
    empty = pl.col("empty").fill_null(False)
    return found.sort("row").select(kept=~empty | empty.all().over("rank"))
