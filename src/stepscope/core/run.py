"""A training run as a set of tables, with everything derived from it computed at most once."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeVar, cast

import polars as pl

from stepscope.core.errors import MissingData
from stepscope.core.schema import TABLES, Column, empty

__all__ = ["Analysis", "Run"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One recorded run. Immutable: analyses return new tables and never edit these."""

    tables: dict[str, pl.DataFrame]
    path: str = ""
    _results: dict[Hashable, object] = field(default_factory=dict, repr=False)

    def table(self, name: str, *, how: str) -> pl.DataFrame:
        """Return a table of `core.schema`. Raises MissingData if it is empty; `how` tells how to record it."""
        table = self.optional(name)
        if table.is_empty():
            raise MissingData(f"{name} table", how=how)
        return table

    def optional(self, name: str) -> pl.DataFrame:
        """Return a table of `core.schema`, perhaps without rows."""
        if name not in TABLES:
            raise KeyError(name)
        return self.tables[name] if name in self.tables else empty(name)

    def once(self, compute: Callable[["Run"], T]) -> T:
        """Return `compute(self)`, computed the first time only. A MissingData it raises is kept and raised again."""
        if compute not in self._results:
            try:
                self._results[compute] = compute(self)
            except MissingData as missing:
                self._results[compute] = missing
        result = self._results[compute]
        if isinstance(result, MissingData):
            raise result
        return cast(T, result)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Analysis:
    """A table derived from a run. Call it with a run; each run computes it once.

    `columns` declare names, types and units; the docstring of the module that defines the analysis says what one row
    means and where the definition is from.
    """

    compute: Callable[[Run], pl.DataFrame]
    columns: tuple[Column, ...]

    def __call__(self, run: Run) -> pl.DataFrame:
        return run.once(self.compute)
