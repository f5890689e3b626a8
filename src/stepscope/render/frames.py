"""The table of an analysis as a block for reading, or as CSV."""

from collections.abc import Iterable, Sequence
from typing import get_args

import polars as pl

from stepscope.core.report import Table
from stepscope.core.schema import Column, Unit
from stepscope.render.format import plain, quantity

__all__ = ["columns_by_use", "frame_csv", "frame_table", "moments"]

_UNITS = frozenset(get_args(Unit))
_OF_MODULES = frozenset(("module", "pass"))  # columns of tables whose `module` is a path of instances


def moments(columns: Iterable[Column]) -> list[str]:
    """The columns that hold times of day, not lengths."""
    return [column.name for column in columns if column.clock is not None]


def frame_table(
    columns: Iterable[Column],
    frame: pl.DataFrame,
    *,
    tree: bool = False,
    began: int | None = None,
    order: Sequence[str] = (),
) -> Table:
    """A table for reading. Moments are shown as the time since `began`: `start, since start`.

    Where that is unknown or later, the first moment of the table takes its place: `start, since first`.
    Numbers whose unit stands in column `unit` of their row are shown with it, in its place. With `tree`, a path of
    modules below one of an earlier row is its last parts, indented. With `order`, all columns with the most useful
    ones first, the last ones may be left out where room is short.
    """
    described, frame = _with_units([column for column in columns if column.name in frame.columns], frame)
    of_day = moments(described)
    firsts = [first for name in of_day if isinstance(first := frame[name].min(), int)]
    since = "since first"
    if firsts:
        earliest = began if began is not None and began <= min(firsts) else min(firsts)
        since = "since start" if earliest == began else since
        frame = frame.with_columns(pl.col(of_day) - earliest)
    frame = frame.with_columns(_joined(frame, ", "))
    if tree and {column.name for column in described} >= _OF_MODULES:
        frame = frame.with_columns(pl.Series("module", _branches(frame["module"].to_list()), dtype=pl.String))
    headings: tuple[tuple[str, Unit | None], ...] = tuple(
        (f"{column.name}, {since}" if column.name in of_day else column.name, column.unit) for column in described
    )
    names = [column.name for column in described]
    positions = tuple(names.index(name) for name in order if name in names)
    return Table("", headings, tuple(frame.select(names).iter_rows()), positions)


def frame_csv(frame: pl.DataFrame, *, escape: bool) -> str:
    """CSV with full numbers; lists are joined by semicolons. `escape` makes unsafe characters visible."""
    text = frame.with_columns(_joined(frame, "; ")).write_csv()
    return "".join(plain(line, limit=len(line)) + "\n" for line in text.splitlines()) if escape else text


def columns_by_use(columns: Sequence[Column], frame: pl.DataFrame, leading: Sequence[str]) -> list[str]:
    """Names of columns, those of `leading` first; names that tell no rows apart and what no row has are last."""
    places = {name: place for place, name in enumerate(leading)}

    def use(column: Column) -> tuple[bool, bool, int]:
        cells = frame[column.name]
        alike = column.unit is None and cells.n_unique() == 1 and (frame.height > 1 or cells.dtype.is_integer())
        says_nothing = alike and places.get(column.name) != 0
        return cells.is_null().all(), says_nothing, places.get(column.name, len(places))

    return [column.name for column in sorted(columns, key=use)]


def _with_units(columns: list[Column], frame: pl.DataFrame) -> tuple[list[Column], pl.DataFrame]:
    """The table with numbers as text that the unit of their row belongs to, and without column `unit`."""
    bare = [column.name for column in columns if column.unit is None and column.type.is_float()]
    if not bare or "unit" not in frame.columns:
        return columns, frame
    texts = {
        name: [
            None if value is None else quantity(value, unit) if unit in _UNITS else f"{quantity(value, None)} {unit}"
            for value, unit in frame.select(name, "unit").iter_rows()
        ]
        for name in bare
    }
    shown = frame.with_columns(pl.Series(name, cells, dtype=pl.String) for name, cells in texts.items())
    return [column for column in columns if column.name != "unit"], shown


def _branches(paths: Iterable[str | None]) -> list[str | None]:
    """Paths such as `Net_0.Conv_1` as branches of the tree that the rows above have begun."""
    open_paths: list[str] = []
    branches: list[str | None] = []
    for path in paths:
        while open_paths and not (path == open_paths[-1] or (path and path.startswith(f"{open_paths[-1]}."))):
            open_paths.pop()
        if path is not None and path not in open_paths:
            open_paths.append(path)
        above = open_paths[-2] + "." if len(open_paths) > 1 else ""
        branches.append(path and "  " * (len(open_paths) - 1) + path.removeprefix(above))
    return branches


def _joined(frame: pl.DataFrame, separator: str) -> list[pl.Expr]:
    """Columns of lists as text."""
    lists = (name for name, kind in frame.schema.items() if isinstance(kind, pl.List))
    return [pl.col(name).cast(pl.List(pl.String)).list.join(separator) for name in lists]
