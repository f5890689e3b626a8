"""The regular events of a table, as the scanner hands them over: columns, and texts that are decoded once each."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.importers.kineto.events import FAR, RANGES, Ints, ends, is_near
from stepscope.importers.kineto.json_pieces import Decoders
from stepscope.importers.kineto.layout import LAYOUT
from stepscope.importers.kineto.source import Note
from stepscope.native import _scanner

__all__ = ["Codes", "Regular", "Texts"]

_ASKED_TWICE = ("index", "pid", "cat")  # columns that say of which process a trace is, and are part of tables


@dataclass(slots=True)
class Texts:
    """The values of every dictionary of a trace by number, None for "absent" (number 0)."""

    columns: _scanner.Columns
    known: dict[int, list[Any]] = field(default_factory=dict)

    def values(self, column: str) -> list[Any]:
        """The values that the numbers in `column` stand for."""
        dictionary = LAYOUT.dictionaries[column]
        if dictionary not in self.known:
            decode = Decoders().strict.decode
            self.known[dictionary] = [_value(text, decode) for text in self.columns.texts(dictionary)]
        return self.known[dictionary]


def _value(text: bytes, decode: Callable[[str], Any]) -> Any:
    if text[:1] == b'"' and b"\\" not in text:
        return text[1:-1].decode()
    return decode(text.decode()) if text else None


@dataclass(frozen=True, slots=True)
class Codes:
    """A column of texts: `numbers` of the `values` of its dictionary."""

    numbers: pl.Series
    values: list[Any]

    def of(self, converted: list[Any], kind: type[pl.DataType]) -> pl.Series:
        """The column with the values of the dictionary replaced by `converted`, one for each."""
        return pl.Series(converted, dtype=kind).gather(self.numbers)

    def count(self, wanted: Iterable[bool]) -> int:
        """How many rows have a value for which `wanted`, one for each value of the dictionary, holds."""
        is_wanted = np.fromiter(wanted, dtype=np.bool_, count=len(self.values))
        if not is_wanted.any():
            return 0
        return int(is_wanted[self.array()].sum())

    def among(self, rows: npt.NDArray[np.int64]) -> list[Any]:
        """The values of some rows."""
        return [self.values[number] for number in self.array()[rows].tolist()]

    def array(self) -> npt.NDArray[np.uint32]:
        """The numbers."""
        return self.numbers.to_numpy()


class Regular:
    """The regular events of one table. Most columns can be taken once: what was taken is gone.

    `base` ns is added to the times. Until `place`, `start` has every event; then those near the bulk of the trace.
    """

    def __init__(self, table: str, columns: _scanner.Columns, texts: Texts, base: int) -> None:
        number, self._places = LAYOUT.tables[table]
        self._table, self._number, self._columns, self._texts = table, number, columns, texts
        self._rows = columns.rows(number)
        self._keep: pl.Series | None = None
        self._held: dict[str, pl.Series | None] = {}
        self._starts = self._taken("ts")
        self._lengths = self._taken("dur") if table in RANGES else None
        self.start = _times(self._starts)
        np.add(self.start, base, out=self.start)

    def __len__(self) -> int:
        return self._rows if self._keep is None else int(self._keep.sum())

    def place(self, first: int, last: int, note: Note) -> None:
        """Leave out what is far from the bulk, and turn lengths into ends."""
        kept: slice | npt.NDArray[np.bool_] = slice(None)
        if self._rows and not (self.start.min() >= first and self.start.max() <= last):
            near = is_near(self.start, first, last)
            note(FAR, int(self._rows - near.sum()))
            if not near.all():
                kept, self._keep, self.start = near, pl.Series(near), self.start[near]
        if self._lengths is not None:
            length = _times(self._lengths)
            length[kept] = ends(self.start, length[kept], last, note)

    def positions(self) -> pl.Series:
        """Positions of the events in the file."""
        found = self._series("index")
        return pl.Series(dtype=pl.Int64) if found is None else found

    def starts(self) -> pl.Series:
        """When the events start."""
        return self._kept(pl.Series(self._starts))

    def ends(self) -> pl.Series:
        """When they end."""
        return self._kept(pl.Series(self._lengths))

    def numbers(self, column: str) -> pl.Series | None:
        """A column of numbers, null where there is none; None if no event has one."""
        return self._series(column)

    def codes(self, column: str) -> Codes | None:
        """A column of texts; None if no event has one."""
        numbers = self._series(column)
        return None if numbers is None else Codes(numbers, self._texts.values(column))

    def _series(self, column: str) -> pl.Series | None:
        if column in self._held:
            return self._held[column]
        taken = self._taken(column)
        series = None if taken is None else self._kept(pl.Series(taken))
        if column in _ASKED_TWICE:
            self._held[column] = series
        return series

    def _taken(self, column: str) -> _scanner.Column | None:
        return self._columns.take(self._number, self._places[column]) if column in self._places else None

    def _kept(self, series: pl.Series) -> pl.Series:
        return series if self._keep is None else series.filter(self._keep)


def _times(column: _scanner.Column | None) -> Ints:
    """Times that every row has, not copied: they are written to."""
    return np.empty(0, dtype=np.int64) if column is None else np.frombuffer(memoryview(column), dtype=np.int64)
