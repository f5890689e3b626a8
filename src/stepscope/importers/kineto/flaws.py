"""Where a text stops being strictly JSON, in the words of Python's reader: line, column and reason."""

import codecs
from dataclasses import dataclass

from stepscope.core.paths import AnyPath
from stepscope.importers.kineto.stream import Damaged, opened

__all__ = ["NO_PLACE", "Flaw", "place_of"]

NO_PLACE = -(1 << 30)
"""Stands for the characters of a flaw that Python names no place for."""

_AT_ONCE = 1 << 20
_LONGEST_CHARACTER = 4  # bytes


@dataclass(frozen=True, slots=True)
class Flaw:
    """The first thing that is not strictly JSON: `characters` behind byte `offset` of the text, and why it is not."""

    offset: int
    characters: int
    why: str


def place_of(path: AnyPath, flaw: Flaw) -> str:
    """Line, column and reason, as Python writes them. Reads the file again up to there, to count its lines."""
    if flaw.characters == NO_PLACE:
        return flaw.why
    try:
        lines, column = _place(path, flaw, to_the_damage=False)
    except Damaged:
        lines, column = _place(path, flaw, to_the_damage=True)
    return f"line {lines}, column {column}: {flaw.why}"


def _place(path: AnyPath, flaw: Flaw, *, to_the_damage: bool) -> tuple[int, int]:
    decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
    buffer = bytearray(_AT_ONCE)
    lines, column, left = 1, 1, flaw.offset
    with opened(path, to_the_damage=to_the_damage) as stream, memoryview(buffer) as view:
        while left:
            count = stream.fill(view[: min(left, _AT_ONCE)])
            lines, column = _after(decode(bytes(view[:count])), lines, column)
            left = left - count if count else 0
        tail = bytearray(flaw.characters * _LONGEST_CHARACTER)
        count = stream.fill(memoryview(tail))
    text = bytes(tail[:count]).decode("utf-8", "replace")[: flaw.characters]
    return _after(text, lines, column)


def _after(text: str, lines: int, column: int) -> tuple[int, int]:
    """Line and column behind `text`, which begins in that line and column."""
    breaks = text.count("\n")
    return lines + breaks, len(text) - text.rfind("\n") if breaks else column + len(text)
