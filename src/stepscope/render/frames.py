"""The table of an analysis as a block for reading, or as CSV."""

from collections.abc import Iterable

import polars as pl

from stepscope.core.report import Table
from stepscope.core.schema import Column, Unit
from stepscope.render.format import plain

__all__ = ["frame_csv", "frame_table"]

_MOMENTS = frozenset(("start", "end", "time", "first_start", "last_end"))  # columns that hold times of day, not lengths


def frame_table(columns: Iterable[Column], frame: pl.DataFrame) -> Table:
    """A table for reading. Moments are shown as the time since the first one of the table: `start, since first`."""
    described = [column for column in columns if column.name in frame.columns]
    moments = [column.name for column in described if column.name in _MOMENTS and column.unit == "ns"]
    firsts = [first for name in moments if (first := frame[name].min()) is not None]
    if firsts:
        earliest = min(firsts)
        frame = frame.with_columns(pl.col(moments) - earliest)
    frame = frame.with_columns(_joined(frame, ", "))
    headings: tuple[tuple[str, Unit | None], ...] = tuple(
        (f"{column.name}, since first" if column.name in moments else column.name, column.unit) for column in described
    )
    return Table("", headings, tuple(frame.select([column.name for column in described]).iter_rows()))


def frame_csv(frame: pl.DataFrame, *, escape: bool) -> str:
    """CSV with full numbers; lists are joined by semicolons. `escape` makes unsafe characters visible."""
    text = frame.with_columns(_joined(frame, "; ")).write_csv()
    return "".join(plain(line, limit=len(line)) + "\n" for line in text.splitlines()) if escape else text


def _joined(frame: pl.DataFrame, separator: str) -> list[pl.Expr]:
    """Columns of lists as text."""
    lists = (name for name, kind in frame.schema.items() if isinstance(kind, pl.List))
    return [pl.col(name).cast(pl.List(pl.String)).list.join(separator) for name in lists]
