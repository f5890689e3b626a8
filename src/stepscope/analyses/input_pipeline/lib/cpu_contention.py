"""Time that a loader takes from training without any wait for it: its workers have the cores."""

import polars as pl

from stepscope.analyses.host.core_waits import core_waits
from stepscope.analyses.input_pipeline.lib.loader_facts import loader_facts
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["core_wait_behind_workers"]


def core_wait_behind_workers(run: Run, rank: int) -> float:
    """Mean ns of a step in which the training process could run but its own workers had the cores; 0 if unknown.

    It is what the main thread waited for a core, less what programs outside the job can have had of them.
    """
    if not loader_facts(run, rank).workers:
        return 0.0
    try:
        rows = core_waits(run).filter(pl.col("rank") == rank)
    except MissingData:
        return 0.0
    return max((0.0, *(float(row["waited"] - row["others"] * row["step"]) for row in rows.iter_rows(named=True))))
