"""The steps that averages are taken from.

One row is a step, with the columns of `steps`. Warm-up steps are left out. Steps that were traced, or in which tracing
was started or stopped, are left out wherever the rank has any besides them. Long steps and steps with an evaluation
stay in: they cost time. In a run that is only a trace, all steps count but empty ones. A stopping profiler marks one
more step, in which no operator runs.
"""

import polars as pl

from stepscope.analyses.steps.steps import COLUMNS, WARM_UP_STEPS, steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and time. Raises MissingData if all steps were warm-up."""
    left_out = pl.col("tags").list.contains("warm-up") | pl.col("tags").list.contains("empty")
    warm = steps(run).filter(~left_out)
    if warm.is_empty():
        if steps(run)["tags"].list.contains("warm-up").any():
            raise MissingData("steps after warm-up", how=f"train for more than {WARM_UP_STEPS} steps")
        raise MissingData("steps in which anything ran", how="record it again: all steps of this trace are empty")
    disturbed = pl.col("tags").list.contains("traced") | pl.col("tags").list.contains("tracing")
    return warm.filter(~disturbed | disturbed.all().over("rank"))


LEADING = ("step", "duration", "data_wait", "forward", "backward", "optimizer", "other", "samples", "tags")
ANALYSIS = steady_steps = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)


def marks_steps(run: Run) -> bool:
    """Whether steps are marked or timed in a run at all."""
    try:
        return not steady_steps(run).is_empty()
    except MissingData:
        return False
