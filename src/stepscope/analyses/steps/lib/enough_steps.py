"""Steady steps, where there are enough of them to say anything about an average."""

import polars as pl

from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["enough_steps"]

ENOUGH = 3  # one step is an accident, two are a coincidence


def enough_steps(run: Run) -> pl.DataFrame:
    """Steady steps of the ranks that have ENOUGH of them. Raises MissingData if none has.

    Of a trace alone one is enough: there are no others, and the verdict says how few there were.
    """
    table = steady_steps(run)
    of_trace = (pl.col("clock") == "kineto").all().over("rank")
    enough = table.filter(of_trace | (pl.len().over("rank") >= ENOUGH))
    if enough.is_empty():
        raise MissingData("three steps after warm-up", how="record more steps")
    return enough
