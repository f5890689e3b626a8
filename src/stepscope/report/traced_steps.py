"""Over how many steps the sums of a trace are."""

import polars as pl

from stepscope.analyses.steps.steady_steps import marks_steps
from stepscope.analyses.steps.steps import steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["traced_steps"]


def traced_steps(run: Run) -> int:
    """The steps of a rank over which the trace's calls and kernels add up; 0 where none is marked."""
    try:
        traced = steps(run).filter(pl.col("tags").list.contains("traced") | (pl.col("clock") == "kineto"))
    except MissingData:
        return 0
    most = traced.group_by("rank").len()["len"].max() if marks_steps(run) else None
    return most if isinstance(most, int) else 0
