"""Rows of a table that were asked for on the command line, their order and columns: `--where`, `--sort`, …"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from stepscope.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from stepscope.core.schema import Column

__all__ = ["ALL", "Selection", "selection"]

ALL = "all"
"""The word of --columns for every column."""

_CONDITION = re.compile(r"\s*([A-Za-z_]\w*)\s*(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
_FACTORS: dict[str | None, dict[str, Decimal]] = {
    "ns": {name: Decimal(10) ** power for name, power in (("ns", 0), ("us", 3), ("µs", 3), ("ms", 6), ("s", 9))},
    "bytes": {name: Decimal(1024) ** power for power, name in enumerate(("B", "KiB", "MiB", "GiB"))},
    "ratio": {"%": Decimal("0.01")},
}
_AMOUNT = re.compile(r"([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*([A-Za-zµ%]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The rows that pass all of `tests`, in the order of column `by` if there is one; of these `columns` only."""

    columns: tuple[Column, ...]
    tests: tuple[pl.Expr, ...] = ()
    by: str | None = None
    descending: bool = False

    def of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The chosen rows; those that are equal in the column sorted by stay in their order."""
        chosen = frame.filter(*self.tests) if self.tests else frame
        if self.by is not None:
            chosen = chosen.sort(self.by, descending=self.descending, nulls_last=True, maintain_order=True)
        return chosen.select(column.name for column in self.columns)


def selection(
    name: str, columns: Sequence[Column], *, where: Sequence[str] = (), sort: str | None = None, show: str | None = None
) -> Selection:
    """What the words of --where, --sort and --columns mean for a table. Raises BadInput that names its columns."""
    known = {column.name: column for column in columns}
    tests = tuple(_test(name, known, words) for words in where)
    words = [word.strip() for word in show.split(",")] if show not in (None, ALL) else list(known)
    shown = tuple(_column("--columns", name, known, word) for word in dict.fromkeys(words))
    if sort is None:
        return Selection(columns=shown, tests=tests)
    by, _, order = sort.partition(":")
    column = _column("--sort", name, known, by)
    if order not in ("", "asc", "desc"):
        raise BadInput("--sort", f"{order!r} is no order", next_step=f"write --sort {by}:asc or --sort {by}:desc")
    descending = order == "desc" or (not order and _is_amount(column))
    return Selection(columns=shown, tests=tests, by=by, descending=descending)


def _is_amount(column: Column) -> bool:
    """Numbers with a unit are sorted largest first; names, ids and times of day from the first on."""
    return column.unit is not None and column.name not in ("start", "end", "time")


def _test(name: str, known: dict[str, Column], words: str) -> pl.Expr:
    found = _CONDITION.fullmatch(words)
    if not found:
        example = next(iter(known))
        raise BadInput(
            "--where", f"{words!r} is no condition", next_step=f"write COLUMN=VALUE, such as --where '{example}=…'"
        )
    column, operator, value = _column("--where", name, known, found[1]), found[2], found[3].strip()
    if not value:
        return _absence(column, operator)
    if column.type.is_numeric():
        return _compared(column, operator, value)
    if operator not in ("=", "!="):
        raise BadInput(
            "--where", f"{column.name} holds no numbers to compare", next_step=f"write --where '{column.name}={value}'"
        )
    return _matched(column, value, wanted=operator == "=")


def _column(option: str, name: str, known: dict[str, Column], asked: str) -> Column:
    if asked in known:
        return known[asked]
    from difflib import get_close_matches

    close = get_close_matches(asked, known, n=1, cutoff=0.5)
    meant = f", did you mean {close[0]}?" if close else ""
    raise BadInput(option, f"{name} has no column {asked!r}{meant}", next_step=f"its columns: {', '.join(known)}")


def _absence(column: Column, operator: str) -> pl.Expr:
    import polars as pl

    if operator not in ("=", "!="):
        raise BadInput(
            "--where", f"{column.name}{operator} lacks a value", next_step=f"write --where '{column.name}{operator}1'"
        )
    value = pl.col(column.name)
    return value.is_null() if operator == "=" else value.is_not_null()


def _compared(column: Column, operator: str, value: str) -> pl.Expr:
    import polars as pl

    amount = _amount(column, value)
    cell = pl.col(column.name)
    match operator:
        case "=":
            return cell == amount
        case "!=":
            return cell != amount
        case "<":
            return cell < amount
        case "<=":
            return cell <= amount
        case ">":
            return cell > amount
        case _:
            return cell >= amount


def _amount(column: Column, value: str) -> int | float:
    """A number in the unit of the column: nanoseconds or bytes where no unit is written."""
    units = _FACTORS.get(column.unit, {})
    found = _AMOUNT.fullmatch(value)
    try:
        if not found or (found[2] and found[2] not in units):
            raise InvalidOperation
        amount = Decimal(found[1]) * units.get(found[2], Decimal(1))
    except InvalidOperation:
        advice = f"write a number, or one with a unit: {', '.join(units)}" if units else "write a number"
        raise BadInput("--where", f"{value!r} is no number for {column.name}", next_step=advice) from None
    return int(amount) if amount == amount.to_integral_value() else float(amount)


def _matched(column: Column, value: str, *, wanted: bool) -> pl.Expr:
    """Names that match a pattern, in which * stands for anything and ? for one character; of lists any element."""
    import polars as pl

    parts = (".*" if mark == "*" else "." if mark == "?" else re.escape(mark) for mark in value)
    pattern = f"(?s)^{''.join(parts)}$"
    cell = pl.col(column.name)
    if isinstance(column.type, pl.List):
        found = cell.cast(pl.List(pl.String)).list.eval(pl.element().str.contains(pattern)).list.any()
    else:
        found = cell.cast(pl.String).str.contains(pattern)
    return found.fill_null(False) == wanted
