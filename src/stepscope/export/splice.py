"""Add events to the list of events of a trace while its own bytes pass through untouched."""

import codecs
import json
import re
from collections.abc import Iterator

from stepscope.importers.kineto.json_repair import EVENTS
from stepscope.importers.kineto.stream import Stream

__all__ = ["Open", "list_end", "spliced"]

_PIECE = 1 << 20  # bytes read at once
_TAIL = 1 << 20  # bytes kept back, in which the list of events must end; what writers put behind it takes some 10 KB
_BRACKET = re.compile(r"[}\[]\s*(?P<end>\])")  # of an empty list, or behind an object
_NEAR = 1 << 16  # bytes in which there is an event, if it is a list of events that ends
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class Open(Exception):
    """The end of the list of events was not found."""


def spliced(stream: Stream, added: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes of a trace in pieces, with events added behind the last one of its list. Raises Open, at the end."""
    buffer, held, opening = bytearray(_PIECE), b"", b""
    while filled := stream.fill(memoryview(buffer)):
        held += bytes(buffer[:filled])
        if not opening:
            held = held.removeprefix(codecs.BOM_UTF8)  # viewers take it for a broken file
            opening = held.lstrip()[:1]
        if len(held) > 2 * _TAIL:
            yield held[:-_TAIL]
            held = held[-_TAIL:]
    end = list_end(held, in_object=opening == b"{")
    if end is None:
        raise Open
    yield held[:end].rstrip()
    separator = b"\n" if held[:end].rstrip().endswith(b"[") else b",\n"
    for event in added:
        yield separator + event
        separator = b",\n"
    yield b"\n" + held[end:]


def list_end(tail: bytes, *, in_object: bool) -> int | None:
    """Where the bracket stands that ends the list of events, in the last bytes of a trace; None if it is not there.

    It is the first bracket behind which the document can end: an object with other members but not with the list of
    events, a list with nothing.
    """
    text = tail.decode("latin-1")
    closes = _closes_object if in_object else _is_blank
    for bracket in _BRACKET.finditer(text):
        at = bracket.start("end")
        if closes(text, at + 1):
            before = text[max(0, at - _NEAR) : at].rstrip()
            return at if before.endswith("[") or '"ph"' in before else None
    return None


def _is_blank(text: str, at: int) -> bool:
    return _after_space(text, at) == len(text)


def _closes_object(text: str, at: int) -> bool:
    """Whether the text from a character on is members of an object and its brace, and nothing behind it."""
    at = _after_space(text, at)
    while text.startswith(",", at):
        try:
            key, at = _DECODER.raw_decode(text, _after_space(text, at + 1))
            colon = _after_space(text, at)
            if not isinstance(key, str) or key == EVENTS or not text.startswith(":", colon):
                return False
            _, at = _DECODER.raw_decode(text, _after_space(text, colon + 1))
        except (ValueError, RecursionError):
            return False
        at = _after_space(text, at)
    return text.startswith("}", at) and _is_blank(text, at + 1)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
