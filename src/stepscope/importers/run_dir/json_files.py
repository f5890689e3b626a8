"""JSON files and JSON lines that a job may have been killed over: what is broken is counted, never fatal."""

import json
from collections.abc import Callable
from itertools import islice
from typing import Any

from stepscope.core.paths import AnyPath

__all__ = ["Note", "Row", "flag", "number", "read_lines", "read_object", "text", "word"]

Row = dict[str, Any]
Note = Callable[[str, int], None]
"""Called with the reason and the count of something that was left out."""

_BLANK = " \t\r\n\x00"


def read_object(path: AnyPath, note: Note) -> Row | None:
    """The JSON object in `path`; None if there is no such file, or (noted) if it is damaged."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        note(f"{path.name} cannot be read ({type(error).__name__}): not read", 1)
        return None
    if not isinstance(value, dict):
        note(f"{path.name} holds no JSON object: not read", 1)
        return None
    return value


def read_lines(path: AnyPath, note: Note, most: int | None = None) -> list[Row]:
    """The JSON objects of `path`, one a line; blank lines are nothing, broken lines are counted.

    Of a file of more than `most` bytes only every second, third … line.
    """
    try:
        lines = _lines(path, most)
    except FileNotFoundError:
        return []
    except OSError as error:
        note(f"{path.name} cannot be read ({error.strerror}): not read", 1)
        return []
    rows: list[Row] = []
    broken = 0
    for line in lines:
        if not line.strip(_BLANK):
            continue
        row = _object(line)
        if row is None:
            broken += 1
        else:
            rows.append(row)
    note(f"broken line of {path.name}: left out", broken)
    return rows


def number(value: object) -> int | None:
    """`value` if it is a whole number that fits into int64."""
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


def flag(value: object) -> bool | None:
    """`value` if it is true or false."""
    return value if isinstance(value, bool) else None


def word(value: object) -> str | None:
    """`value` if it is text, made writable."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def text(value: object) -> str:
    """Text as it is, everything else as JSON."""
    known = word(value)
    return json.dumps(value) if known is None else known


def _lines(path: AnyPath, most: int | None) -> list[str]:
    every = 1 if most is None else path.stat().st_size // most + 1
    if every == 1:
        return path.read_bytes().decode("utf-8", "replace").split("\n")
    with path.open("rb") as file:
        return [line.decode("utf-8", "replace") for line in islice(file, 0, None, every)]


def _object(line: str) -> Row | None:
    try:
        row = json.loads(line.strip(_BLANK))
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
