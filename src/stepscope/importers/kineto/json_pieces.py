"""Pieces of JSON: decoders that keep decimals exact, and the repair of one damaged piece."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Decoders", "is_repairable", "repaired_members", "repaired_value", "without_lone_surrogates"]

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: one character
    r"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\.",
    re.DOTALL,
)
_REPAIRABLE = re.compile(
    r'"(?:[^"\\]|\\.)*"'  # a string, in which escapes are repaired
    r"|(?P<comma>,)(?=\s*[}\]])"
    r"|(?P<word>(?<![\w.])-?(?:N/A|n/a|nan|inf|infinity|None|undefined)(?![\w.]))",
    re.DOTALL,
)
_WORD = re.compile(r"-?(?:N/A|n/a|nan|inf|infinity|None|undefined)(?![\w.])")
_COMMA = re.compile(r",\s*[}\]]")
_SPACE = " \t\r\n"
_LONGEST_ESCAPE = 6  # characters, of which Python's reader names the first or one of the next
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_LINE = re.compile(r'\s*("(?:[^"\\]|\\.)*"\s*:.*?)[\s,]*')


@dataclass(slots=True)
class Decoders:
    """JSON decoders that keep decimals as text and read NaN and Infinity, which JSON has not, as null.

    `lenient` also lets control characters in strings pass; `constants` counts the NaNs and Infinities.
    """

    constants: int = 0
    strict: json.JSONDecoder = field(init=False)
    lenient: json.JSONDecoder = field(init=False)

    def __post_init__(self) -> None:
        self.strict = json.JSONDecoder(parse_float=str, parse_constant=self._constant)
        self.lenient = json.JSONDecoder(parse_float=str, parse_constant=self._constant, strict=False)

    def _constant(self, _: str) -> None:
        self.constants += 1


def is_repairable(text: str, error: ValueError) -> bool:
    """Whether what `repaired_value` repairs stands where the lenient reader stopped, which else stops there again."""
    if not isinstance(error, json.JSONDecodeError):
        return True
    at = error.pos
    if _WORD.match(text, at) or "\\" in text[max(0, at - _LONGEST_ESCAPE) : at + 1] or _COMMA.match(text, at):
        return True
    before = at - 1
    while before >= 0 and text[before] in _SPACE:
        before -= 1
    return before >= 0 and text[before] == "," and text[at : at + 1] in ("}", "]")


def repaired_value(piece: str, decoders: Decoders) -> Any:
    """The value of `piece` after repairing: invalid escapes, bare words such as N/A (null), trailing commas.

    Raises ValueError or RecursionError when that is not enough.
    """
    return decoders.lenient.decode(_REPAIRABLE.sub(_repair, piece))


def repaired_members(piece: str, decoders: Decoders) -> tuple[dict[str, Any], int, int]:
    """Members of an object, without its braces: the ones that could be read, how many were repaired, how many lost."""
    try:
        whole = repaired_value("{" + piece.strip(" \t\r\n,") + "}", decoders)
    except (ValueError, RecursionError):
        return _by_line(piece, decoders)
    return whole, 1, 0


def without_lone_surrogates(text: str) -> tuple[str, int]:
    r"""`text` with each escape of half a character (`\ud800` alone) as U+FFFD, since no file can hold it; the count."""
    if "\\" not in text or not _SURROGATE.search(text):  # one character is found ten times as fast as two
        return text, 0
    lone = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal lone
        if match["lone"] is None:
            return match[0]
        lone += 1
        return r"\ufffd"

    return _ESCAPES.sub(replaced, text), lone


def _repair(match: re.Match[str]) -> str:
    if match["comma"]:
        return ""
    if match["word"]:
        return "null"
    return _ESCAPE.sub(lambda escape: escape[0] if len(escape[0]) > 1 else r"\\", match[0])


def _by_line(piece: str, decoders: Decoders) -> tuple[dict[str, Any], int, int]:
    members: dict[str, Any] = {}
    lost = 0
    for line in piece.splitlines():
        match = _LINE.fullmatch(line)
        if not match:
            lost += bool(line.strip(" \t\r\n,{}[]"))
            continue
        try:
            members.update(repaired_value("{" + match[1] + "}", decoders))
        except (ValueError, RecursionError):
            lost += 1
    return members, len(members), lost
