"""Samples of the machine's load, which the launcher takes once a second."""

import polars as pl

from stepscope.core.run import Run

__all__ = ["SAMPLED", "mean_within", "samples_within"]

SAMPLED = 1_000_000_000
"""ns that a sample is about: those before it."""


def samples_within(run: Run, what: str, start: int, end: int) -> pl.DataFrame:
    """Samples of the load that are about `start` to `end` (ns) alone: each is about the second before it."""
    return run.optional("system").filter((pl.col("what") == what) & pl.col("time").is_between(start + SAMPLED, end))


def mean_within(run: Run, what: str, start: int, end: int, which: pl.Expr) -> float | None:
    """The mean of samples about `start` to `end` (ns) alone; in a shorter time of all that were taken meanwhile."""
    whole = samples_within(run, what, start, end).filter(which)
    value = (whole if whole.height else samples_within(run, what, start - SAMPLED, end).filter(which))["value"].mean()
    return float(value) if isinstance(value, int | float) else None
