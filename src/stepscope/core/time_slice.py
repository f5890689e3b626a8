"""A part of the time of a run, and when its time begins and ends."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from stepscope.core.lazy_tables import LazyTables
from stepscope.core.run import Run, stack
from stepscope.core.schema import TABLES

__all__ = ["began", "ended", "part_of"]

_FIRST = (("host", "start"), ("device", "start"), ("memory", "time"), ("steps", "start"))
_LAST = (("host", "end"), ("device", "end"), ("memory", "time"), ("steps", "end"))


def part_of(run: Run, first: int, last: int) -> Run | None:
    """The run with only the events that overlap [first, last) in ns, whole; None if there is none of them.

    Tables without times stay whole.
    """
    source = _Part(run, first, last)
    rows = {name: source.rows(name) for name in run.tables}
    if not any(rows.get(name) for name in dict(_FIRST)):
        return None
    return Run(LazyTables({name: count for name, count in rows.items() if count}, source), run.path)


def began(run: Run) -> int | None:
    """The first time of the run's events and steps; None if its tables hold none."""
    first = run.per_rank(_bounds, stack)["first"].min()
    return first if isinstance(first, int) else None


def ended(run: Run) -> int | None:
    """The last time of the run's events and steps; None if its tables hold none."""
    last = run.per_rank(_bounds, stack)["last"].max()
    return last if isinstance(last, int) else None


def _bounds(run: Run) -> pl.DataFrame:
    """First and last time of each rank, in order of ranks."""
    firsts, lasts = (
        [run.optional(name, "rank", column).select("rank", time=column) for name, column in times if run.rows(name)]
        for times in (_FIRST, _LAST)
    )
    empty = pl.DataFrame(schema={"rank": pl.Int32, "time": pl.Int64})
    first = pl.concat([empty, *firsts]).group_by("rank").agg(first=pl.col("time").min())
    last = pl.concat([empty, *lasts]).group_by("rank").agg(last=pl.col("time").max())
    return first.join(last, on="rank", how="full", coalesce=True, nulls_equal=True).sort("rank")


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of a run's tables that overlap [first, last); tables without times are whole."""

    run: Run
    first: int
    last: int

    def read(self, table: str, columns: Sequence[str], where: pl.Expr | None = None) -> pl.DataFrame:
        """See `core.lazy_tables.RowSource`."""
        inside = _inside(table, self.first, self.last)
        tests = [test for test in (inside, where) if test is not None]
        if not tests:
            return self.run.optional(table, *columns)
        whole = tests[0] if len(tests) == 1 else tests[0] & tests[1]
        return self.run.where(table, whole, *columns)

    def rows(self, table: str) -> int:
        """How many rows of a table are inside."""
        if not self.run.rows(table) or _inside(table, self.first, self.last) is None:
            return self.run.rows(table)
        names = {column.name for column in TABLES[table]}
        return self.read(table, ["start" if "start" in names else "time"]).height


def _inside(table: str, first: int, last: int) -> pl.Expr | None:
    """Whether a row overlaps the range; None for a table without times."""
    names = {column.name for column in TABLES[table]}
    if {"start", "end"} <= names:
        return (pl.col("start") < last) & ((pl.col("end") > first) | (pl.col("start") >= first))
    return (pl.col("time") >= first) & (pl.col("time") < last) if "time" in names else None
