"""The empty step that a stopping profiler marks: no operator runs in it."""

import polars as pl

from stepscope.analyses.steps.steps import steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["without_empty"]


def without_empty(run: Run, table: pl.DataFrame) -> pl.DataFrame:
    """Rows (by rank and step) but those of empty steps, so that means are over the steps of the verdict; all if all are
    empty."""
    try:
        empty = steps(run).filter(pl.col("tags").list.contains("empty"))
    except MissingData:
        return table
    return table.join(empty, on=["rank", "step"], how="anti") if empty.height < table.height else table
