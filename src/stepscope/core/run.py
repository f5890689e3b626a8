"""A training run as a set of tables, with everything derived from it computed at most once."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar, cast

import polars as pl

from stepscope.core.errors import MissingData
from stepscope.core.lazy_tables import LazyTables
from stepscope.core.schema import LACKING, TABLES, Column, empty

__all__ = ["Analysis", "Ranks", "Run", "Scope", "chain", "stack"]

T = TypeVar("T")
Row = TypeVar("Row")
Scope = Literal["rank", "job"]
"""What a result needs: `rank`, for each rank nothing but the rows of that rank; `job`, the tables of all ranks."""


class Ranks(Protocol):
    """The ranks of a run whose tables of events are not in memory."""

    def results(self, compute: Callable[["Run"], T], only: int | None) -> Sequence[T | MissingData]:
        """What `compute` gives for a run that holds one rank, or the MissingData it raises; of all ranks, in order.

        With `only`, of that rank alone.
        """


def _columns(table: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The named columns, of no names all. Tables are asked often: `select` would take ten times as long."""
    return table[list(names)] if names else table


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One recorded run. Immutable: analyses return new tables and never edit these.

    `tables` may load a column when it is first asked for, so name the columns that you read of a table of events.
    `beside` are tables of the whole job that no rank has, such as the trials of a tuning.
    """

    tables: Mapping[str, pl.DataFrame]
    path: str = ""
    ranks: Ranks | None = None
    beside: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    _results: dict[Hashable, object] = field(default_factory=dict, repr=False)
    _of_rank: set[Callable[["Run"], object]] = field(default_factory=set, repr=False)

    def table(self, name: str, *columns: str, how: str) -> pl.DataFrame:
        """As `optional`. Raises MissingData if the table is empty; `how` tells how to record it."""
        if not self.rows(name):
            raise MissingData(LACKING.get(name, f"{name} table"), how=how)
        return self.optional(name, *columns)

    def optional(self, name: str, *columns: str) -> pl.DataFrame:
        """Return the named columns of a table of `core.schema` (without names: all), perhaps without rows."""
        if name not in TABLES:
            raise KeyError(name)
        if name in self.beside:
            return _columns(self.beside[name], columns)
        if columns and isinstance(self.tables, LazyTables):
            return self.tables.select(name, columns)
        return _columns(self.tables[name] if name in self.tables else empty(name), columns)

    def where(self, name: str, test: pl.Expr, *columns: str) -> pl.DataFrame:
        """As `optional`, of the rows that pass a test: for a few rows of a table of events."""
        if isinstance(self.tables, LazyTables):
            return self.tables.where(name, test, columns)
        return _columns(self.optional(name).filter(test), columns)

    def holds(self, name: str, *columns: str) -> bool:
        """Whether the named columns of a table are in memory, so that reading them costs nothing."""
        return not isinstance(self.tables, LazyTables) or self.tables.holds(name, columns)

    def rows(self, name: str) -> int:
        """The number of rows of a table of `core.schema`, without reading it."""
        if name not in TABLES:
            raise KeyError(name)
        if name in self.beside:
            return self.beside[name].height
        if isinstance(self.tables, LazyTables):
            return self.tables.height(name)
        return self.tables[name].height if name in self.tables else 0

    def once(self, compute: Callable[["Run"], T]) -> T:
        """Return `compute(self)`, computed the first time only. A MissingData it raises is kept and raised again."""
        if compute not in self._results:
            try:
                self._results[compute] = compute(self)
            except MissingData as missing:
                self._results[compute] = MissingData(missing.what, how=missing.how)  # without frames that hold tables
        return cast(T, self._kept(compute))

    def per_rank(
        self, compute: Callable[["Run"], T], join: Callable[[Sequence[T]], T], *, only: int | None = None
    ) -> T:
        """As `once`, for a function of a module that needs, for its result on a rank, only what is of that rank.

        That is its rows of the core tables, and what its own sources say in meta.

        Where ranks were opened apart it is computed for each by itself, and `join` puts together what they gave, in
        order of ranks; ranks that raise MissingData are left out, and if all do, that of the first is raised. With
        `only`, results of other ranks than that one may be left out.
        """
        self._of_rank.add(compute)
        ranks = self.ranks
        if ranks is None:
            return self.once(compute)
        key: Hashable = compute if only is None or compute in self._results else (compute, only)
        if key not in self._results:
            results = ranks.results(compute, only)
            known = [result for result in results if not isinstance(result, MissingData)]
            self._results[key] = join(known) if known else results[0]
        return cast(T, self._kept(key))

    def _kept(self, key: Hashable) -> object:
        result = self._results[key]
        if isinstance(result, MissingData):
            raise MissingData(result.what, how=result.how)
        return result

    def rank_results(self) -> dict[Callable[["Run"], object], object]:
        """What `per_rank` has computed so far, by function; a MissingData where it raised one."""
        return {compute: self._results[compute] for compute in self._of_rank if compute in self._results}


def stack(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all frames, for `Run.per_rank`."""
    return pl.concat(frames)


def chain(parts: Sequence[tuple[Row, ...]]) -> tuple[Row, ...]:
    """The items of all tuples, for `Run.per_rank`."""
    return tuple(item for part in parts for item in part)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Analysis:
    """A table derived from a run. Call it with a run; each run computes it once.

    `columns` declare names, types and units; the docstring of the module that defines the analysis says what one row
    means and where the definition is from. `scope` "rank" promises that the rows of a rank follow from the rows of that
    rank in the core tables, and come in order of ranks; then ranks are computed apart, on several cores or machines.
    `leading` names the columns to keep where not all find room, most useful first; the others follow as declared.
    """

    compute: Callable[[Run], pl.DataFrame]
    columns: tuple[Column, ...]
    scope: Scope = "job"
    leading: tuple[str, ...] = ()

    def __call__(self, run: Run) -> pl.DataFrame:
        return run.per_rank(self.compute, stack) if self.scope == "rank" else run.once(self.compute)
