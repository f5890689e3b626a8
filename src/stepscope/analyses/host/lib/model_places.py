"""The user's lines that call the model longest, as samples tell."""

import polars as pl

from stepscope.analyses.host.lines import lines
from stepscope.analyses.lib.line_places import STEP, line_place
from stepscope.core.errors import MissingData
from stepscope.core.finding import Place
from stepscope.core.run import Run

__all__ = ["model_places"]

PLACES = 3
LEAST = 0.1  # of the step: lines with less are not where it passes


def model_places(run: Run, rank: int) -> tuple[Place, ...]:
    """Lines of a rank in which operators of the model take LEAST of the step or more; none without samples."""
    try:
        own = lines(run).filter((pl.col("rank") == rank) & (pl.col("work") == "model"))
    except MissingData:
        return ()
    each = own.drop_nulls(["file", "line"]).group_by("file", "line", "function", "text").agg(pl.col("share").sum())
    longest = each.filter(pl.col("share") >= LEAST).sort("share", "file", "line", descending=[True, False, False])
    return tuple(line_place(row, row["share"], STEP) for row in longest.head(PLACES).iter_rows(named=True))
