"""Steps in which a loader ends its workers and starts new ones."""

import polars as pl

from stepscope.analyses.input_pipeline.lib.loader_facts import loader_facts
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.run import Run

__all__ = ["restarting_steps"]


def restarting_steps(run: Run, rank: int) -> frozenset[int]:
    """The steady steps of a rank that begin an epoch, where its workers do not live on; none otherwise.

    The time in which the workers of the epoch before end is part of what such a step does besides.
    """
    facts = loader_facts(run, rank)
    if not facts.workers or facts.persistent is not False:
        return frozenset()
    begins = pl.col("tags").list.contains("epoch-start").fill_null(False)
    return frozenset(steady_steps(run).filter((pl.col("rank") == rank) & begins)["step"].to_list())
