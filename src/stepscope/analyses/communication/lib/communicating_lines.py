"""The user's lines that launch collectives, and the micro-batches of a step."""

import polars as pl

from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.launch_lines import launch_lines
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["FORWARD", "communicating_lines", "micro_batches"]

FORWARD = "DistributedDataParallel.forward"
"""Torch's annotation of each micro-batch."""


def communicating_lines(run: Run) -> pl.DataFrame:
    """The lines that launch collectives, as `launch_lines` gives them; none where no device communicates."""
    try:
        return launch_lines(run, device_work(run)["role"] == "communication")
    except MissingData:
        return launch_lines(run, pl.Series(dtype=pl.Boolean))


def micro_batches(run: Run) -> pl.DataFrame:
    """Rank and start of each micro-batch of DistributedDataParallel."""
    return run.where("host", pl.col("name") == FORWARD, "rank", "start")
