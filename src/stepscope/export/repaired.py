"""A damaged trace written anew: what the importer can read of it, with decimals as they stand in the file."""

import json
import re
from collections.abc import Iterator
from typing import Any

from stepscope.core.paths import AnyPath
from stepscope.importers.kineto.json_pieces import Decoders, without_lone_surrogates
from stepscope.importers.kineto.json_repair import EVENTS, Repair
from stepscope.importers.kineto.source import read_text

__all__ = ["repaired_trace"]

_MARK = "\x00"  # no decimal and no name of a trace begins with it
_DECIMAL = re.compile(r'"\\u0000(-?[0-9.eE+-]+)"')


def repaired_trace(path: AnyPath, added: Iterator[bytes]) -> Iterator[bytes]:
    """The text of a trace in pieces, one event per line, with events added at the end of its list.

    Raises BadInput if the file cannot be read, NotJson if it is no JSON at all.
    """
    text, _ = without_lone_surrogates(read_text(path, _no_note))
    document = Repair(text, _no_note, _decoders()).document().value
    members = document if isinstance(document, dict) else {EVENTS: document}
    events = members.get(EVENTS)
    yield b"{"
    for key, value in members.items():
        if key != EVENTS:
            yield _bytes(key) + b": " + _bytes(value) + b",\n"
    yield _bytes(EVENTS) + b": ["
    separator = b"\n"
    for event in events if isinstance(events, list) else []:
        yield separator + _bytes(event)
        separator = b",\n"
    for line in added:
        yield separator + line
        separator = b",\n"
    yield b"\n]}\n"


def _decoders() -> Decoders:
    decoders = Decoders()
    for strict in (True, False):
        decoder = json.JSONDecoder(parse_float=_MARK.__add__, parse_constant=lambda _: None, strict=strict)
        setattr(decoders, "strict" if strict else "lenient", decoder)
    return decoders


def _bytes(value: Any) -> bytes:
    return _DECIMAL.sub(r"\1", json.dumps(value)).encode()


def _no_note(reason: str, count: int) -> None:
    """What was repaired was told when the trace was opened."""
