"""Values of events to typed columns: whole numbers, decimals and text; what does not fit is counted, never guessed."""

import json
from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any

import polars as pl

from stepscope.importers.kineto.decimals import whole_number
from stepscope.importers.kineto.source import Note

__all__ = [
    "NAMELESS", "NOWHERE", "NO_NAME", "UNKNOWN", "Event", "as_json", "decimals", "finite", "given", "identifiers",
    "located", "names", "not_a_number", "texts", "whole_numbers",
]  # fmt: skip

Event = dict[str, Any]
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_LARGEST = 1e30  # no measure of anything; sums and products of larger numbers overflow
NO_NAME = "(no name)"
"""Shown for an event without a name."""

UNKNOWN = "unknown"
"""Stands for a process or a thread that an event does not name: without one it could not be nested among others."""

NOWHERE = f"event of no process or no thread: put in one called {UNKNOWN}"
"""Told of such events."""

NAMELESS = f"event without a name: shown as {NO_NAME}"
"""Told of such events."""

Convert = Callable[[object], object]


def whole_numbers(values: list[object], what: str, note: Note) -> pl.Series:
    """An Int64 column; text such as "102" counts as a number, everything else is missing and counted."""
    if set(map(type, values)) <= {int, NoneType}:
        try:
            return pl.Series(values, dtype=pl.Int64, strict=True)
        except (TypeError, OverflowError, ValueError, pl.exceptions.PolarsError):
            pass  # some do not fit
    return pl.Series(_converted(values, whole_number, what, note), dtype=pl.Int64)


def decimals(values: list[object], what: str, note: Note) -> pl.Series:
    """A Float64 column of finite numbers; "inf", "nan" and what is no number are missing and counted."""
    return pl.Series(_converted(values, finite, what, note), dtype=pl.Float64)


def texts(values: list[object]) -> pl.Series:
    """A String column: text as it is, lists and objects as JSON, null where there is nothing."""
    return pl.Series(
        [value if type(value) is str or value is None else as_json(value) for value in values], dtype=pl.String
    )


def identifiers(values: Iterable[object]) -> list[str | None]:
    """Process and thread ids as text, whatever the source writes."""
    known: dict[object, str] = {}
    result: list[str | None] = []
    for value in values:
        if type(value) is int or type(value) is str:
            text = known.get(value)
            if text is None:
                text = known[value] = str(value)
            result.append(text)
        else:
            result.append(None)
    return result


def located(ids: Iterable[object]) -> list[str]:
    """As `identifiers`; an event of no process or thread is put in one that is called UNKNOWN."""
    return [UNKNOWN if text is None else text for text in identifiers(ids)]


def given(event: Event, key: str) -> str | None:
    """The text that an event of metadata gives as argument `key`."""
    arguments = event.get("args")
    text = arguments.get(key) if isinstance(arguments, dict) else None
    return text if isinstance(text, str) else None


def names(events: list[Event], note: Note) -> list[str]:
    """Names exactly as the source writes them; an event without one is counted and called `(no name)`."""
    found = [event.get("name") for event in events]
    note(NAMELESS, sum(type(name) is not str for name in found))
    return [name if type(name) is str else NO_NAME for name in found]


def not_a_number(what: str) -> str:
    """What to tell of values of an argument that should be numbers."""
    return f"argument {what!r} that is not a number: read as missing"


def _converted(values: list[object], convert: Convert, what: str, note: Note) -> list[Any]:
    result = [None if value is None else convert(value) for value in values]
    unusable = result.count(None) - values.count(None)
    note(not_a_number(what), unusable)
    return result


def finite(value: object) -> float | None:
    """`value` as a finite number if it is one, or text of one; decimals come as text."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) <= _LARGEST else None  # not of a NaN either


def as_json(value: object) -> str:
    """`value` as compact JSON; one that is nested just short of what Python can follow is only named."""
    try:
        return _ENCODE(value)
    except RecursionError:
        return '"(nested too deeply)"'
