"""A trace read by the compiled scanner: columns of its regular events, the few others as Python values, its header.

The scanner reads pieces of the list of events at the same time. A piece counts only if the one before it ends exactly
where it begins; otherwise its bytes are read again behind what was left. Elements that are valid but irregular become
Python values; where the text is no JSON, the reader of whole texts takes one step over the damage (`repair_step`).
"""

import codecs
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from stepscope.core.errors import BadInput
from stepscope.core.importing import Progress
from stepscope.core.paths import AnyPath
from stepscope.importers.kineto import json_repair, repair_step
from stepscope.importers.kineto.flaws import Flaw, place_of
from stepscope.importers.kineto.json_pieces import Decoders, without_lone_surrogates
from stepscope.importers.kineto.json_repair import CONSTANTS, EVENTS, SURROGATES, Document
from stepscope.importers.kineto.layout import LAYOUT
from stepscope.importers.kineto.pieces import ELEMENT, FIRST, PIECE, Piece, Pieces, threads_here
from stepscope.importers.kineto.repair_step import MARGIN
from stepscope.importers.kineto.source import REPLACED, decoded, replaced_in
from stepscope.importers.kineto.stream import Damaged, Stream, opened
from stepscope.importers.kineto.trace_document import RECORD
from stepscope.native import _scanner

__all__ = ["Cutting", "Scanned", "Unfit", "scan"]

_HEAD = 64 * 1024  # bytes in which the list of events mostly begins
_LONGEST_HEAD = 64 << 20  # bytes; a list that begins behind them is for the reader of whole texts
_LONGEST_ELEMENT = 64 << 20  # bytes; names and stacks of a real event have some thousands
_MOST_LOST = 20_000  # events that cannot be read, if they are the most: each takes a step in Python
_MOST_STRANGERS = 200_000  # elements that are no events, if they are the most
_GROWTH = 8
_WINDOW = 64 * 1024  # bytes shown at first to the step over damage
_EXHAUSTED, _LIST_END, _BROKEN, _SECOND_LIST = range(4)


class NoTrace(Exception):
    """What is no trace, told before it fills the memory: why, and at which byte of the text."""


class Unfit(Exception):
    """A file that the reader of whole texts has to read."""


@dataclass(frozen=True, slots=True)
class Cutting:
    """How the text is cut: bytes of a piece, and threads that scan."""

    piece: int = PIECE
    threads: int = field(default_factory=threads_here)


@dataclass(slots=True)
class Scanned:
    """What a trace holds.

    `columns` are the regular events, `odd` the others with their positions; `document` is the trace with an empty
    list of events, and its `lost` counts elements that could not be read; `notes` are what to tell the user.
    """

    columns: _scanner.Columns
    odd: list[tuple[int, Any]]
    document: Document
    notes: Counter[str]


def scan(path: AnyPath, cutting: Cutting, progress: Progress | None = None) -> Scanned:
    """Read a trace.

    Raises Unfit if the file needs the reader of whole texts, OSError if it cannot be read, BadInput if it is no trace.
    """
    try:
        try:
            with opened(path) as stream:
                return _scan(path, stream, cutting, progress)
        except Damaged:
            with opened(path, to_the_damage=True) as stream:
                return _scan(path, stream, cutting, progress)
    except NoTrace as error:
        why, at = error.args
        raise BadInput(path, why, where=f"byte {at} of the text", next_step=RECORD) from error


def _scan(path: AnyPath, stream: Stream, cutting: Cutting, progress: Progress | None) -> Scanned:
    head, start = _head(stream)
    columns = _scanner.Columns(LAYOUT.slots, LAYOUT.columns, LAYOUT.categories)
    with _threads(cutting.threads) as pool:
        pieces = Pieces(
            stream, head[start:], start, columns, pool, size=cutting.piece, threads=cutting.threads
        )  # fmt: skip
        reader = _List(stream, columns, pieces, progress)
        reader.read()
    if stream.damage:
        reader.notes[stream.damage] += 1
    document = _document(path, head[:start], reader)
    return Scanned(columns, reader.odd, document, reader.notes)


@contextmanager
def _threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that stop after the piece at hand when the block ends, for whatever reason."""
    pool = ThreadPoolExecutor(count, thread_name_prefix="scanner")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _head(stream: Stream) -> tuple[bytes, int]:
    """The first bytes of the text, and where in them the first event begins, if the text is one for the scanner."""
    size, head = _HEAD, b""
    while True:
        more = bytearray(size - len(head))
        filled = stream.fill(memoryview(more))
        head += more[:filled]
        text = head.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
        if not text.lstrip().startswith(("{", "[")):
            raise Unfit("no JSON object or list")
        characters = json_repair.list_start(text)
        if characters is not None:
            return head, _bytes_before(head, text, characters)
        if filled < len(more) or size >= _LONGEST_HEAD:
            raise Unfit("no list of events at the top level")
        size *= _GROWTH


def _bytes_before(head: bytes, text: str, characters: int) -> int:
    """Bytes of `head` before a character of its text; the list's bracket is the same one in both, counted in ASCII."""
    brackets = text.count("[", 0, characters)
    at = -1
    for _ in range(brackets):
        at = head.index(b"[", at + 1)
    return at + 1


@dataclass(slots=True)
class _List:
    """Reads the list of events; `rest` is the text behind it then, from byte `rest_at` on.

    `left` are bytes that the pieces so far left over, and `state` is what holds where they begin.
    """

    stream: Stream
    columns: _scanner.Columns
    pieces: Pieces
    progress: Progress | None
    odd: list[tuple[int, Any]] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    decoders: Decoders = field(default_factory=Decoders)
    rest: bytes = b""
    rest_at: int = 0
    lost: int = 0
    strangers: int = 0
    ended: bool = False
    flaw: Flaw | None = None
    left: bytes = b""
    state: int = FIRST

    def read(self) -> None:
        """Read to the end of the list, or of the text."""
        while not self.ended and (piece := self.pieces.next()):
            if self.left:
                piece = self._joined(piece)
            elif piece.state != self.state:
                piece.scan(0, self.state)
            self._use(piece, is_end=False)
        if not self.ended:
            self._use(self._joined(None), is_end=True)
        self.notes[CONSTANTS] += self.decoders.constants

    def _joined(self, piece: Piece | None) -> Piece:
        joined = self.pieces.joined(self.left, piece)
        joined.scan(0, self.state)
        return joined

    def _use(self, piece: Piece, *, is_end: bool) -> None:
        """Take what was read of a piece, and go over what is damaged; `is_end`: the text ends with it."""
        piece.wait()
        while self._take(piece, is_end=is_end):
            pass
        if self.progress is not None:
            done = self.stream.done
            self.progress(done, max(self.stream.total or 0, done), self.columns.count)
        self.pieces.give_back(piece)

    def _take(self, piece: Piece, *, is_end: bool) -> bool:
        """Take what was read; True: the piece goes on behind damage."""
        scanner = piece.scanner
        first = self.columns.count
        self.columns.append(scanner)
        if scanner.left_out:
            self._leave_out(piece)
        with memoryview(piece.buffer) as text:
            for position, begin, end in scanner.odd():
                value = self._value(bytes(text[begin:end]))
                self.strangers += not isinstance(value, dict)
                self.odd.append((first + position, value))
                if self.strangers > max(_MOST_STRANGERS, self.columns.count // 2):
                    raise NoTrace(
                        "a list that holds mostly no events, so it is not a profiler trace", piece.offset + end
                    )
        if scanner.stop == _SECOND_LIST:
            raise Unfit("a key named like the list of events within an event")
        if scanner.stop == _LIST_END:
            self.ended = True
            self.rest_at = piece.offset + scanner.resume
            self.rest = bytes(piece.buffer[scanner.resume : piece.end]) + self.pieces.rest()
            return False
        if (scanner.stop == _BROKEN or is_end) and self._repair(piece, is_end=is_end):
            return not self.ended
        self._leave(piece)
        return False

    def _leave(self, piece: Piece) -> None:
        """Keep what was not read for the next piece."""
        scanner = piece.scanner
        if scanner.state == ELEMENT and scanner.resume == piece.end:
            self.left, self.state = b"", ELEMENT
        else:
            self.left = bytes(memoryview(piece.buffer)[scanner.after_previous : piece.end])
            if len(self.left) > _LONGEST_ELEMENT:
                why = f"an event that does not end within {_LONGEST_ELEMENT >> 20} MB"
                raise NoTrace(why, piece.offset + scanner.after_previous)
            self.state = scanner.state_after_previous

    def _value(self, raw: bytes) -> Any:
        """An element that is valid but irregular."""
        self.notes[REPLACED] += replaced_in(raw)
        text, lone = without_lone_surrogates(raw.decode("utf-8", "replace"))
        self.notes[SURROGATES] += lone
        try:
            return self.decoders.strict.decode(text)
        except (ValueError, RecursionError) as error:
            raise Unfit(str(error)) from error

    def _repair(self, piece: Piece, *, is_end: bool) -> bool:
        """Take one step over the damage behind the last element; False: more of the text is needed to tell."""
        scanner = piece.scanner
        begin, state = scanner.after_previous, scanner.state_after_previous
        size = max(_WINDOW, scanner.fault_at - begin + 2 * MARGIN)
        while True:
            end = min(begin + size, piece.end)
            window = bytes(memoryview(piece.buffer)[begin:end])
            is_all = is_end and end == piece.end
            step = repair_step.step(window, state, is_end=is_all, is_first=self.flaw is None)
            if step is not None:
                break
            if end == piece.end:
                return False
            size *= _GROWTH
        self._add(step, piece.offset + begin)
        if not step.ended:
            piece.scan(begin + step.at, step.state)
        return True

    def _leave_out(self, piece: Piece) -> None:
        """Count the damaged events that the scanner went over."""
        scanner = piece.scanner
        self._lose(scanner.left_out, piece.offset + scanner.after_previous)
        self.notes[json_repair.LEFT_OUT] += scanner.left_out
        if self.flaw is None:
            begin, end, state = scanner.first_gap()
            window = bytes(memoryview(piece.buffer)[begin : end + 1])
            found = repair_step.flaw(window.decode(), state)
            assert found is not None
            self.flaw = replace(found, offset=piece.offset + begin)

    def _lose(self, events: int, offset: int) -> None:
        self.lost += events
        if self.lost > max(_MOST_LOST, self.columns.count):
            raise NoTrace("most of its events are not valid JSON", offset)

    def _add(self, step: repair_step.Step, offset: int) -> None:
        if step.lists:
            raise Unfit("a list of events begins within another one")
        for element in step.elements:
            self.odd.append((self.columns.count, element))
            self.columns.advance(1)
        self._lose(step.lost, offset)
        self.decoders.constants += step.constants
        self.notes.update(step.notes)
        self.ended = step.ended
        if self.flaw is None and step.flaw is not None:
            self.flaw = replace(step.flaw, offset=offset)


def _document(path: AnyPath, before: bytes, found: _List) -> Document:
    """The trace with an empty list of events, read as a whole text is."""

    def note(reason: str, count: int) -> None:
        found.notes[reason] += count

    text = decoded(before + found.rest, note)
    characters = len(decoded(before, lambda reason, count: None))
    document, error = json_repair.read(text, note)
    flaw = found.flaw
    value = document.value.get(EVENTS) if isinstance(document.value, dict) else document.value
    if value != [] or json_repair.lists_of_events(text) > 1:
        raise Unfit("another value with the key of the list of events")
    document.lost = found.lost
    if error is not None and (not isinstance(error, json.JSONDecodeError) or error.pos < characters):
        found.notes[json_repair.tolerant(json_repair.place(error))] += 1
        return document
    if flaw is None and isinstance(error, json.JSONDecodeError):
        flaw = Flaw(found.rest_at, error.pos - characters, error.msg)
    if flaw is not None:
        found.notes[json_repair.tolerant(place_of(path, flaw))] += 1
    return document
