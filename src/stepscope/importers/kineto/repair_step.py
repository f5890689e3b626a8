"""One step over damage in a list of events, on a window of its text: the reader of whole texts decides."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscope.importers.kineto.flaws import NO_PLACE, Flaw
from stepscope.importers.kineto.json_pieces import Decoders, without_lone_surrogates
from stepscope.importers.kineto.json_repair import SURROGATES, Repair, lists_of_events
from stepscope.importers.kineto.pieces import AFTER, ELEMENT, FIRST
from stepscope.importers.kineto.source import REPLACED, replaced_in

__all__ = ["MARGIN", "Step", "flaw", "step"]

MARGIN = 32 * 1024
"""Bytes that have to follow a step in its window: twice what it looks ahead."""

_BEFORE = {FIRST: "[", ELEMENT: "[[],", AFTER: "[[]"}  # what makes the text from there on a list again


@dataclass(slots=True)
class Step:
    """What was found: elements, how many were lost, what to tell the user, and where to go on in which state.

    `ended`: the text ends within the list. `lists`: other lists of events that begin in what was read.
    """

    elements: list[Any]
    at: int
    state: int
    flaw: Flaw | None
    lost: int = 0
    constants: int = 0
    ended: bool = False
    lists: int = 0
    notes: Counter[str] = field(default_factory=Counter)


def step(window: bytes, state: int, *, is_end: bool, is_first: bool) -> Step | None:
    """Read over the element at the start of `window`. None: it has to be longer.

    `is_end`: the text ends with the window. `is_first`: the damage is the first, of which the flaw is wanted.
    """
    raw = window.decode("utf-8", "replace")
    text, _ = without_lone_surrogates(raw)
    last = len(text) if is_end else len(text) - MARGIN
    found = _strict(text, state, last)
    if found is None and (is_end or not _is_valid(text, state)):
        found = _tolerant(text, flaw(text, state) if is_first else None, last, is_end=is_end)
    if found is None:
        return None
    found.lists = lists_of_events(
        '"' + text, found.at + 1
    )  # the key may begin with the quote that ends a string before
    found.notes[SURROGATES] += without_lone_surrogates(raw[: found.at])[1]
    found.at = _byte_of(window, raw, found.at)
    found.notes[REPLACED] += replaced_in(window[: found.at])
    return found


def _strict(text: str, state: int, last: int) -> Step | None:
    """An element that is valid after all, where one may stand."""
    at = _skip(text, 0)
    if state == AFTER:
        if not text.startswith(",", at):
            return None
        at = _skip(text, at + 1)
    decoders = Decoders()
    try:
        element, at = decoders.strict.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None
    return Step([element], at, AFTER, None, constants=decoders.constants) if at <= last else None


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at


def _is_valid(text: str, state: int) -> bool:
    """Whether a window may hold the whole rest of a valid list: the scanner also stops at what is only irregular."""
    return text.rstrip().endswith("]") and flaw(text, state) is None


def _tolerant(text: str, first: Flaw | None, last: int, *, is_end: bool) -> Step | None:
    if first is not None and not is_end and first.characters > last:
        return None
    notes: Counter[str] = Counter()

    def note(reason: str, count: int) -> None:
        notes[reason] += count

    repair = Repair(text, note, Decoders())
    found: list[Any] = []
    if repair.goes_on("]"):
        repair.element(found)
    if not is_end and (max(repair.at, repair.reach) > last or repair.truncated):
        return None
    at_element = repair.lost > 0 and text.startswith("{", repair.at)
    return Step(
        found,
        repair.at,
        ELEMENT if at_element else AFTER,
        first,
        lost=repair.lost,
        constants=repair.decoders.constants,
        ended=repair.truncated,
        notes=notes,
    )


def flaw(text: str, state: int) -> Flaw | None:
    """Where and why Python's strict reader refuses the list from here on; None: it does not."""
    before = _BEFORE[state]
    try:
        Decoders().strict.decode(before + text)
    except json.JSONDecodeError as error:
        return Flaw(0, error.pos - len(before), error.msg)
    except RecursionError:
        return Flaw(0, NO_PLACE, "nested too deeply")
    except ValueError as error:
        return Flaw(0, NO_PLACE, str(error))
    return None


def _byte_of(window: bytes, text: str, at: int) -> int:
    """The byte of `window` at which character `at` of its text stands, which may hold replaced bytes."""
    if at >= len(text):
        return len(window)
    if "\ufffd" not in text[:at]:
        return len(text[:at].encode("utf-8", "surrogatepass"))
    ascii_before = len(text[:at].encode("ascii", "ignore"))
    ascii_bytes = np.flatnonzero(np.frombuffer(window, dtype=np.uint8) < 0x80)
    return int(ascii_bytes[ascii_before - 1]) + 1 if text[at - 1] < "\x80" else int(ascii_bytes[ascii_before])
