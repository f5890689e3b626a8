"""How many workers a recorded trial asks for, by the simulation of its loader."""

from collections.abc import Sequence

import polars as pl

from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.models.loader_model import LoaderChange, fit, predict
from stepscope.models.pipeline import pipeline

__all__ = ["simulated_workers"]

NEARLY = 0.03  # of the step: fewer workers that are as good but for this are better, each takes memory


def simulated_workers(run: Run, numbers: Sequence[int]) -> int | None:
    """The fewest of `numbers` with which a step is nearly as short as with any, on the rank that waits longest.

    None where the run does not hold what the simulation needs, or was too disturbed for it.
    """
    try:
        rank = _waits_longest(run)
        rows = predict(fit(pipeline(run, rank)), [LoaderChange(workers=number) for number in numbers])
    except MissingData:
        return None
    least = min((row.step_ns for row in rows), default=0)
    return next((row.workers for row in rows if row.step_ns <= (1 + NEARLY) * least), None)


def _waits_longest(run: Run) -> int:
    waits = enough_steps(run).group_by("rank").agg(pl.col("data_wait").mean()).drop_nulls()
    if waits.is_empty():
        raise MissingData("data wait of a torch DataLoader", how="run it with `stepscope run -- COMMAND`")
    return int(waits.sort(["data_wait", "rank"], descending=[True, False])["rank"][0])
