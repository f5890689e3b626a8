"""Long steps that come back: what makes them long, how far apart they are, and what they cost.

A row is one cause on one rank. A step stalls if its time in other exceeds the median by at least half a median step.
Failing that, its time in forward and optimizer must. `cause` is "evaluation", "line" or "unknown". In an evaluation, a
loader that does not train was used. A line is one of the user's own that ordinary steps hardly run. `distance` is the
median number of steps from one to the next; `regular` says whether the distances agree, multiples of it included
because traced and first steps are left out. `excess` is the time above the median step, averaged over all steady steps:
what a run would save per step without the stall.
"""

import polars as pl

from stepscope.analyses.steps.lib.stall_groups import StallGroup, stall_groups
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column, polars_schema

__all__ = ["ANALYSIS", "stalls"]

COLUMNS = (
    Column("rank", pl.Int32, None, "rank"),
    Column("cause", pl.String, None, "evaluation, line or unknown"),
    Column("file", pl.String, None, "file of the line, if samples name one"),
    Column("line", pl.Int64, None, "line that runs in the long steps only"),
    Column("function", pl.String, None, "function of the line"),
    Column("text", pl.String, None, "source line"),
    Column("long_steps", pl.Int64, "count", "long steps"),
    Column("distance", pl.Float64, "count", "median number of steps between two of them; null for one"),
    Column("regular", pl.Boolean, None, "true: the distances agree"),
    Column("longest", pl.Int64, "ns", "duration of the longest of them"),
    Column("excess", pl.Int64, "ns", "time above the median step, averaged over all steady steps"),
    Column("share", pl.Float64, "ratio", "excess, as share of the mean steady step"),
)


def compute(run: Run) -> pl.DataFrame:
    table = steady_steps(run)
    rows = [_row(group, table.filter(pl.col("rank") == group.rank)) for group in stall_groups(run)]
    return pl.DataFrame(rows, schema=polars_schema(COLUMNS), orient="row").sort(
        ["rank", "excess", "cause", "file", "line"], descending=[False, True, False, False, False], nulls_last=True
    )


def _row(group: StallGroup, table: pl.DataFrame) -> tuple[object, ...]:
    place = group.places[0] if group.places else None
    where = (place.file, place.line, place.symbol, place.text) if place else (None, None, None, None)
    longest = table.filter(pl.col("step").is_in(list(group.steps)))["duration"].max()
    whole = int(table["duration"].sum())
    return (
        group.rank,
        group.cause,
        *where,
        group.count,
        group.distance or None,
        group.regular,
        longest,
        round(group.excess / table.height),
        group.excess / whole if whole else None,
    )


LEADING = ("cause", "file", "line", "long_steps", "longest", "excess", "share", "text", "function", "regular")
ANALYSIS = stalls = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
