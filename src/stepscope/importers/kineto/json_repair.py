"""JSON read strictly first; a damaged document is read event by event, and what cannot be repaired is counted."""

import itertools
import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from stepscope.importers.kineto.json_pieces import (
    Decoders,
    is_repairable,
    repaired_members,
    repaired_value,
    without_lone_surrogates,
)
from stepscope.importers.kineto.source import Note

__all__ = [
    "CONSTANTS", "EVENTS", "LEFT_OUT", "SURROGATES", "Document", "NotJson", "Repair", "list_start", "lists_of_events",
    "parse", "place", "read", "tolerant",
]  # fmt: skip

EVENTS = "traceEvents"
"""The key of the list of events."""

_QUOTED_KEY = f'"{EVENTS}"'
_BLANK = "\x00 \t\r\n"
_EVENTS_KEY = re.compile(r'"traceEvents"\s*:\s*(?=\[)')
_COLON = re.compile(r"\s*:\s*")
_SPACE = re.compile(r"[\s,]*")
_EVENT_END = re.compile(r"\}(?=\s*,\s*\{|\s*\])")
_EVENT_START = re.compile(r',\s*(?=\{\s*"(?:ph|name|cat|ts|dur|pid|tid|id|bp|s|args)"\s*:)')
_MAYBE_LIST_END = re.compile(r"\}\s*\]")
_LIST_END = re.compile(r'\}\s*(?=\]\s*(?:,\s*"|\}\s*\Z|\Z))')
CONSTANTS = "NaN or Infinity as a number: read as missing"
"""Told of numbers that JSON has not."""

LEFT_OUT = "event that is not valid JSON: left out"
"""Told of events that nothing could be read of."""

SURROGATES = "half of a surrogate pair in a name: shown as replacement character"
"""Told of escapes of half a character."""

_ENDS_TRIED = 8  # ends of a broken event that are tried: objects nested in it end like it does
_LOOKED_AT = 1 << 14  # characters looked at to tell what starts somewhere; an error in a long text is slow to raise
_PHASE = '"ph"'  # a key that each event has once
_LONGEST_EVENT = 1 << 20  # characters searched for the end of a broken event


class NotJson(ValueError):
    """The text is no JSON document; `position` is the character at which reading failed."""

    def __init__(self, why: str, position: int) -> None:
        super().__init__(why)
        self.why, self.position = why, position

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.why, self.position)  # it comes from a worker as the cause of another error


@dataclass(slots=True)
class Document:
    """What a file holds: `value` is its first JSON value, `lost` counts list elements that could not be read.

    `followed`: another JSON document comes after it. `truncated`: the file ends before its value does.
    """

    value: Any
    lost: int = 0
    followed: bool = False
    truncated: bool = False


def parse(text: str, note: Note) -> Document:
    """Read the first JSON value of `text`; decimals stay text. What was repaired or lost goes to `note`.

    Raises NotJson when not even a tolerant reader finds a JSON value.
    """
    document, error = read(text, note)
    if error is not None:
        note(tolerant(place(error)), 1)
    return document


def read(text: str, note: Note) -> tuple[Document, Exception | None]:
    """As `parse`, which tells `note` why the text is not strictly JSON; here it is returned."""
    if not text.strip(_BLANK):
        raise NotJson("the file holds white space only, no JSON value", 0)
    text, lone = without_lone_surrogates(text)
    note(SURROGATES, lone)
    decoders = Decoders()
    if lists_of_events(text) > 1:  # of equal keys the strict reader would silently keep the last
        return Repair(text, note, decoders).document(), None
    try:
        document = Document(decoders.strict.decode(text))
    except (ValueError, RecursionError) as error:
        return Repair(text, note, Decoders()).document(), error
    note(CONSTANTS, decoders.constants)
    return document, None


def lists_of_events(text: str, until: int | None = None) -> int:
    """How often the key of the list of events stands before a list; only such as begin before character `until`."""
    end = len(text) if until is None else min(len(text), until + len(_QUOTED_KEY) - 1)
    found, at = 0, text.find(_QUOTED_KEY, 0, end)
    while at >= 0:
        found += _EVENTS_KEY.match(text, at) is not None
        at = text.find(_QUOTED_KEY, at + len(_QUOTED_KEY), end)
    return found


def tolerant(where: str) -> str:
    """What to tell of a text that is not strictly JSON, and where that shows first."""
    return f"not strictly valid JSON ({where}): read by a tolerant reader"


def place(error: Exception) -> str:
    """Where and why the strict reader stopped."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def list_start(text: str) -> int | None:
    """The character behind the bracket that opens the list of events at the top level, if `text` reaches that far."""
    reader = Repair(text, lambda reason, count: None, Decoders())
    reader.space()
    if text.startswith("[", reader.at):
        return reader.at + 1
    if not text.startswith("{", reader.at):
        return None
    reader.at += 1
    members: dict[str, Any] = {}
    while reader.has_member():
        events = _EVENTS_KEY.match(text, reader.at)
        if events:
            return events.end() + 1
        try:
            reader.member(members)
        except NotJson:
            return None
    return None


@dataclass(slots=True)
class Repair:
    """A reader that goes on after damage; `at` is the character it stands at.

    `reach` is the last character that a decision rests on, beyond what is looked at to tell what starts there.
    """

    text: str
    note: Note
    decoders: Decoders
    at: int = 0
    lost: int = 0
    truncated: bool = False
    list_end: re.Match[str] | None = None
    reach: int = 0

    def document(self) -> Document:
        self.space()
        value = self.top()
        if self.truncated:
            self.note("the file is truncated: everything before the cut was read", 1)
        rest = self.text[self.at :].strip(_BLANK)
        followed = rest.startswith(("{", "["))
        if followed:
            self.note("another JSON document follows the first one: only the first was read", 1)
        elif rest:
            self.note("bytes after the end of the JSON document: not read", len(rest.encode("utf-8", "replace")))
        self.note(CONSTANTS, self.decoders.constants)
        return Document(value, self.lost, followed, self.truncated)

    def top(self) -> Any:
        if self.text.startswith("{", self.at):
            return self.members()
        if self.text.startswith("[", self.at):
            return self.elements()
        try:
            value, self.at = self.decoders.lenient.raw_decode(self.text, self.at)
        except ValueError:
            raise NotJson(f"not JSON: it begins with {self.text[self.at : self.at + 20]!r}", self.at) from None
        return value

    def space(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def members(self) -> dict[str, Any]:
        """An object, member by member; the list of events gets its own reader."""
        members: dict[str, Any] = {}
        self.at += 1
        while self.has_member():
            self.member(members)
        self.at += not self.truncated
        return members

    def has_member(self) -> bool:
        """Go to the next member; False at the end of the object, or of the text."""
        return self.goes_on("}")

    def goes_on(self, end: str) -> bool:
        """Go to what stands next; False if that is `end`, or the end of the text."""
        self.space()
        self.truncated = self.truncated or self.at >= len(self.text)
        return not self.truncated and self.text[self.at] != end

    def member(self, members: dict[str, Any]) -> None:
        list_of_events = _EVENTS_KEY.match(self.text, self.at)
        if list_of_events:
            self.at = list_of_events.end()
            self.note(f"the key {EVENTS} occurs more than once: the last list was read", int(EVENTS in members))
            members[EVENTS] = self.elements()
            return
        began = self.at
        try:
            key, self.at = self.decoders.lenient.raw_decode(self.text, self.at)
            colon = _COLON.match(self.text, self.at)
            if not isinstance(key, str) or not colon:
                raise ValueError("no member of an object")
            members[key], self.at = self.decoders.lenient.raw_decode(self.text, colon.end())
        except (ValueError, RecursionError):
            self.broken_members(began, members)

    def broken_members(self, began: int, members: dict[str, Any]) -> None:
        """Repair what stands between `began` and the events, or the end of the file."""
        events = _EVENTS_KEY.search(self.text, began)
        if not members and events is None:
            raise NotJson(f"not JSON: an object that begins with {self.text[:20]!r}", began)
        self.at = events.start() if events else len(self.text)
        piece = self.text[began : self.at]
        closed = events is None and piece.rstrip(_BLANK).endswith("}")
        if closed:
            piece = piece.rstrip(_BLANK)[:-1]
        found, repaired, lost = repaired_members(piece, self.decoders)
        members.update(found)
        self.note("header that was not valid JSON: repaired", int(repaired > 0))
        self.note("header entry that is not valid JSON: not read", lost)
        if closed:
            self.at = len(self.text.rstrip(_BLANK)) - 1

    def elements(self) -> list[Any]:
        """A list, element by element, from its opening bracket."""
        found: list[Any] = []
        self.at += 1
        while self.goes_on("]"):
            self.element(found)
        self.at += not self.truncated
        return found

    def element(self, found: list[Any]) -> None:
        """Read the element at `at`, or repair it, or leave it out."""
        try:
            element, self.at = self.decoders.lenient.raw_decode(self.text, self.at)
            found.append(element)
        except RecursionError:
            self.broken_element(found, too_deep=True)
        except ValueError as error:
            self.broken_element(found, too_deep=False, repairable=is_repairable(self.text, error))

    def broken_element(self, found: list[Any], *, too_deep: bool, repairable: bool = False) -> None:
        """Repair the element at `at`, or leave it out and go on at the next one."""
        if repairable and self.repair_element(found):
            return
        self.lost += 1
        if not self.go_on():
            self.truncated = True
            self.note("incomplete event at the cut: left out", 1)
        elif too_deep:
            self.note("event that is nested too deeply: left out", 1)
        else:
            self.note(LEFT_OUT, 1)

    def repair_element(self, found: list[Any]) -> bool:
        """Try to repair the element at `at`; its end may be the end of an object within it, so a few are tried."""
        tried = 0
        for end in itertools.islice(_EVENT_END.finditer(self.text, self.at, self.at + _LONGEST_EVENT), _ENDS_TRIED):
            tried, self.reach = tried + 1, end.end()
            if self.text.count(_PHASE, self.at, end.end()) > 1:
                return False  # the piece holds two events, which no repair makes one
            try:
                found.append(repaired_value(self.text[self.at : end.end()], self.decoders))
            except (ValueError, RecursionError):
                following = _EVENT_START.match(self.text, end.end())
                if following and self.element_at(following.end()) == "event":
                    return False
            else:
                self.note("event that was not valid JSON: repaired", 1)
                self.at = end.end()
                return True
        if tried < _ENDS_TRIED:
            self.reach = self.at + _LONGEST_EVENT
        return False

    def go_on(self) -> bool:
        """Go to the next element, or to the end of the list; False: to the end of the text, there is neither."""
        start = self.next_start(len(self.text))
        if start is not None and not _MAYBE_LIST_END.search(self.text, self.at, start):
            self.at = start
            return True
        if self.list_end is None or self.list_end.start() < self.at:
            self.list_end = _LIST_END.search(self.text, self.at)
        last = self.list_end
        start = self.next_start(last.end()) if last else start
        if start is not None:
            self.at = start
            return True
        self.at = last.end() if last else len(self.text)
        return last is not None

    def next_start(self, until: int) -> int | None:
        """Where the next element starts that is no object within an event."""
        starts = (start.end() for start in _EVENT_START.finditer(self.text, self.at, until))
        return next((start for start in starts if self.element_at(start) != "other"), None)

    def element_at(self, at: int) -> Literal["event", "broken", "other"]:
        """What starts at `at`: an event, something broken, or another object, as there are within events."""
        try:
            found, _ = self.decoders.lenient.raw_decode(self.text[at : at + _LOOKED_AT])
        except (ValueError, RecursionError):
            return "broken"
        return "event" if "ph" in found else "other"
