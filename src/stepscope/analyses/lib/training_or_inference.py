"""Whether a rank trains, or runs a model forward only: a server, a benchmark of inference."""

import polars as pl

from stepscope.analyses.lib.markers import is_backward, is_optimizer
from stepscope.core.run import Run, chain

__all__ = ["inferring_ranks"]

_OF_TRAINING = r"(?i)backward|_bwd|dgrad|wgrad|adam|sgd_|optimizer"  # in names of kernels


def inferring_ranks(run: Run) -> tuple[int, ...]:
    """The ranks whose trace holds operators, and of training nothing: no backward, no optimizer, no timed phases."""
    return run.per_rank(_inferring_ranks, chain)


def _inferring_ranks(run: Run) -> tuple[int, ...]:
    timed = run.optional("steps", "rank", "backward", "optimizer")
    timed = timed.filter(pl.col("backward").is_not_null() | pl.col("optimizer").is_not_null())
    operators = run.where("host", pl.col("kind") == "operator", "rank")["rank"]
    told = run.where("host", is_backward() | is_optimizer(), "rank")["rank"]
    kernels = run.where("device", pl.col("name").str.contains(_OF_TRAINING), "rank")["rank"]
    trains = {*timed["rank"], *told, *kernels}
    return tuple(rank for rank in operators.unique().sort() if rank not in trains)
