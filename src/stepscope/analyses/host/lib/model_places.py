"""The user's lines that call the model longest, as samples tell."""

import polars as pl

from stepscope.analyses.host.lines import lines
from stepscope.analyses.lib.line_places import STEP, line_place
from stepscope.core.errors import MissingData
from stepscope.core.finding import Place
from stepscope.core.run import Run

__all__ = ["model_places"]

PLACES = 3
SEEN = 0.005  # of the step: a sample of two hundred
LEAST = 0.1  # of the step: lines with less are not where it passes


def model_places(run: Run, rank: int, code: str = "") -> tuple[Place, ...]:
    """Lines of a rank in which operators of the model take LEAST of the step or more; none without samples.

    Lines that match the regular expression `code` count from half a per cent on, and go before the others, which hold
    other operators, too: then no share is told of those.
    """
    try:
        own = lines(run).filter((pl.col("rank") == rank) & pl.col("work").is_in(["model", "unclear"]))
    except MissingData:
        return ()
    each = own.drop_nulls(["file", "line"]).group_by("file", "line", "function", "text").agg(pl.col("share").sum())
    told = pl.col("text").str.contains(code).fill_null(False) if code else pl.lit(False)
    each = each.with_columns(told=told).filter(
        (pl.col("share") >= LEAST) | (pl.col("told") & (pl.col("share") >= SEEN))
    )
    longest = each.sort("told", "share", "file", "line", descending=[True, True, False, False])
    rows = longest.head(PLACES).iter_rows(named=True)
    return tuple(line_place(row, row["share"] if row["told"] or not code else None, STEP) for row in rows)
