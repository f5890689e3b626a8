"""Sampled lines of loader workers at which they acquire a lock."""

import polars as pl

from stepscope.analyses.input_pipeline.lib.worker_calls import of_training
from stepscope.analyses.input_pipeline.loader_lines import loader_lines
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["lock_waits", "waits_for_locks"]

LOCKS = (
    r"(^|/)multiprocessing/(synchronize|managers)\.py:.*(__enter__|acquire|wait)"
    r"|(^|/)(filelock|portalocker|fasteners)/|\b(flock|lockf|acquire)\("
)
"""In the innermost frames of a sample, `file:line function`, or in the source of the call."""

MIN_SHARE = 0.33  # of the samples in workers: the rest of the waiting may then be under the lock
MIN_SAMPLES = 10  # fewer may be chance


def lock_waits(run: Run, rank: int) -> pl.DataFrame:
    """Rows of `loader_lines` of what a rank trains on, by time. Raises MissingData where no line was sampled."""
    lines = loader_lines(run)
    words = [pl.col(name).fill_null("").str.contains(LOCKS) for name in ("call", "leaf", "expression")]
    return lines.filter(of_training(run, rank) & pl.any_horizontal(words)).sort(
        ["share", "file", "line"], descending=[True, False, False]
    )


def waits_for_locks(run: Run, rank: int) -> bool:
    """Whether workers wait for locks for a large part of their time; false where no line was sampled."""
    try:
        lines = lock_waits(run, rank)
    except MissingData:
        return False
    return float(lines["share"].sum()) >= MIN_SHARE and int(lines["samples"].sum()) >= MIN_SAMPLES
