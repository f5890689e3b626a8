"""Core tables whose columns are loaded when they are first asked for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import polars as pl

from stepscope.core.schema import TABLES, empty

__all__ = ["LazyTables", "RowSource"]


class RowSource(Protocol):
    """Where the rows of core tables lie."""

    def read(self, table: str, columns: Sequence[str], where: pl.Expr | None = None) -> pl.DataFrame:
        """The named columns of a table, of all its rows or of those that `where` is true for, in order."""


@dataclass(frozen=True, slots=True, eq=False)
class LazyTables(Mapping[str, pl.DataFrame]):
    """All core tables by name; `tables[name]` loads a whole one, `select` only some columns, each at most once.

    `rows` are the numbers of rows of the tables that have any; `loaded` the columns that were read so far, by table.
    """

    rows: Mapping[str, int]
    source: RowSource
    loaded: dict[str, dict[str, pl.Series]] = field(default_factory=dict, repr=False)

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self.select(name, [column.name for column in TABLES[name]])

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __len__(self) -> int:
        return len(TABLES)

    def height(self, name: str) -> int:
        """The number of rows of a table, without reading any of it."""
        return self.rows.get(name, 0)

    def holds(self, name: str, columns: Sequence[str]) -> bool:
        """Whether the named columns of a table were read, or have no rows."""
        return not self.height(name) or all(column in self.loaded.get(name, ()) for column in columns)

    def select(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        """Some columns of a table, in the order given. Raises KeyError for a column that no table of `name` has."""
        unknown = set(columns) - {column.name for column in TABLES[name]}
        if unknown:
            raise KeyError(f"{name} has no column {', '.join(sorted(unknown))}")
        if not self.height(name):
            return empty(name)[list(columns)]
        have = self.loaded.setdefault(name, {})
        missing = [column for column in columns if column not in have]
        if missing:
            have.update(self.source.read(name, missing).to_dict(as_series=True))
        return pl.DataFrame([have[column] for column in columns])

    def where(self, name: str, test: pl.Expr, columns: Sequence[str]) -> pl.DataFrame:
        """As `select`, of the rows that pass a test; what is not loaded yet is read for these rows only."""
        needed = list(dict.fromkeys((*columns, *test.meta.root_names())))
        if self.holds(name, needed):
            return self.select(name, needed).filter(test)[list(columns)]
        return self.source.read(name, columns, test)
