"""`--between FROM TO`: a run of which only a part of the time is looked at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from stepscope.core.errors import BadInput
from stepscope.render.format import quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from stepscope.core.run import Run

__all__ = ["began", "between"]

_NANOSECONDS = {"": 1, "ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_TIME = re.compile(r"\+?(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|)")
_FIRST = (("host", "start"), ("device", "start"), ("memory", "time"), ("steps", "start"))
_LAST = (("host", "end"), ("device", "end"), ("memory", "time"), ("steps", "end"))


def between(run: Run, words: tuple[str, str]) -> Run:
    """The run with only the events that overlap a range of time; whole events, so some reach beyond it.

    `words` are times: with a unit, since the first event or step, as tables for reading show them; whole nanoseconds
    after that are the times of the other formats. Raises BadInput for words that are no times, and for a range without
    events.
    """
    from stepscope.core.run import Run
    from stepscope.core.tables import LazyTables

    start = began(run)
    if start is None:
        raise BadInput("--between", "the run holds no times", next_step="leave the option out")
    first, last = (_time(word, start) for word in words)
    if last <= first:
        raise BadInput("--between", f"{words[1]} is not after {words[0]}", next_step="give the earlier time first")
    source = _Part(run, first, last)
    rows = {name: source.rows(name) for name in run.tables}
    if not any(rows[name] for name in dict(_FIRST)):
        raise BadInput(
            "--between",
            "nothing was recorded in that time",
            next_step=f"give a time from 0 ms to {quantity(_ended(run) - start, 'ns')}, which the recording lasts",
        )
    return Run(LazyTables({name: count for name, count in rows.items() if count}, source), run.path)


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of a run's tables that overlap [first, last); tables without times are whole."""

    run: Run
    first: int
    last: int

    def read(self, table: str, columns: Sequence[str], where: pl.Expr | None = None) -> pl.DataFrame:
        """See `core.tables.Source`."""
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
        from stepscope.core.schema import TABLES

        names = {column.name for column in TABLES[table]}
        return self.read(table, ["start" if "start" in names else "time"]).height


def _inside(table: str, first: int, last: int) -> pl.Expr | None:
    """Whether a row overlaps the range; None for a table without times."""
    import polars as pl

    from stepscope.core.schema import TABLES

    names = {column.name for column in TABLES[table]}
    if {"start", "end"} <= names:
        return (pl.col("start") < last) & ((pl.col("end") > first) | (pl.col("start") >= first))
    return (pl.col("time") >= first) & (pl.col("time") < last) if "time" in names else None


def began(run: Run) -> int | None:
    """The first time of the run's events and steps; None if its tables hold none."""
    times = [run.optional(name, column)[column].min() for name, column in _FIRST if run.rows(name)]
    return min((time for time in times if isinstance(time, int)), default=None)


def _ended(run: Run) -> int:
    """The last time of the run's events and steps."""
    times = [run.optional(name, column)[column].max() for name, column in _LAST if run.rows(name)]
    return max(time for time in times if isinstance(time, int))


def _time(word: str, start: int) -> int:
    found = _TIME.fullmatch(word.strip())
    if not found:
        raise BadInput("--between", f"{word!r} is no time", next_step="write times such as --between 350ms 1.2s")
    amount = int(Decimal(found[1]) * _NANOSECONDS[found[2]])
    is_shown = not found[2] and amount >= start  # as tables show it
    return amount if is_shown else start + amount
