"""A list of events cut into pieces that are scanned at the same time, each as if an event began at its first byte."""

import os
from collections import deque
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from multiprocessing import parent_process

from stepscope.importers.kineto.stream import Stream
from stepscope.native import _scanner

__all__ = ["AFTER", "ELEMENT", "FIRST", "PIECE", "Piece", "Pieces", "threads_here"]

FIRST, ELEMENT, AFTER = range(3)
"""What stands next in the list: its first element, an element, a comma; each time perhaps the end."""

PIECE = 4 << 20
"""Bytes of a piece: enough that handing it over costs nothing beside scanning it, few enough for the caches."""

_MOST_THREADS = 8  # reading the file, or unpacking it, takes one core for about that many scanners
_WAITING = 2  # pieces that are ready to be scanned while every thread is at work


def threads_here() -> int:
    """Threads worth starting: one for each core, but one in all in a process that is itself one of many."""
    if parent_process() is not None:
        return 1
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, _MOST_THREADS)


@dataclass(slots=True)
class Piece:
    """Bytes of the list: buffer[:end], which stand at `offset` in the text.

    `scanner` reads them, or has read them, as if `state` held where it began.
    """

    buffer: bytearray
    end: int
    offset: int
    scanner: _scanner.Scanner
    state: int
    reading: "Future[None] | None" = None

    def wait(self) -> None:
        """Return when the scanner has read the piece."""
        if self.reading is not None:
            self.reading.result()
            self.reading = None

    def scan(self, begin: int, state: int) -> None:
        """Read the piece from `begin` on, at which `state` holds."""
        self.wait()
        self.state = state
        self.scanner.scan(self.buffer, begin, self.end, state)


class Pieces:
    """Gives the pieces of a list in the order of the text; `start` was read already and is the first thing in it.

    Give pieces back when they are done with: their buffers and scanners serve again.
    """

    def __init__(
        self, stream: Stream, start: bytes, offset: int, columns: _scanner.Columns, pool: Executor, *,
        size: int, threads: int,
    ) -> None:  # fmt: skip
        self._stream, self._carry, self._offset = stream, start, offset
        self._columns, self._pool = columns, pool
        self._size, self._depth = size, threads + _WAITING
        self._key = _first_key(start)
        self._flying: deque[Piece] = deque()
        self._buffers: list[bytearray] = []
        self._scanners: list[_scanner.Scanner] = []
        self._state = FIRST
        self._ended = False

    def next(self) -> Piece | None:
        """The next piece, perhaps still being scanned; None at the end of the text."""
        while not self._ended and len(self._flying) < self._depth:
            self._launch()
        return self._flying.popleft() if self._flying else None

    def give_back(self, piece: Piece) -> None:
        """Let the buffer and the scanner of a piece serve again."""
        piece.wait()
        self._scanners.append(piece.scanner)
        if len(piece.buffer) == self._size + _scanner.PADDING:
            self._buffers.append(piece.buffer)

    def joined(self, left: bytes, piece: Piece | None) -> Piece:
        """A piece of `left` and what follows it, `piece` at first, about as much as `left` again; not scanned yet."""
        offset = (self._offset if piece is None else piece.offset) - len(left)
        parts, size = [left], 0
        while piece is not None:
            parts.append(bytes(memoryview(piece.buffer)[: piece.end]))
            size += piece.end
            self.give_back(piece)
            piece = self.next() if size < len(left) else None
        buffer = bytearray(b"".join(parts))
        end = len(buffer)
        buffer += bytes(_scanner.PADDING)
        return Piece(buffer, end, offset, self._scanner(), AFTER)

    def rest(self) -> bytes:
        """Everything that was not given yet."""
        found = []
        while piece := self.next():
            found.append(bytes(memoryview(piece.buffer)[: piece.end]))
            self.give_back(piece)
        return b"".join(found)

    def _launch(self) -> None:
        buffer = self._buffers.pop() if self._buffers else bytearray(self._size + _scanner.PADDING)
        with memoryview(buffer) as view:
            kept = min(len(self._carry), self._size)
            view[:kept] = self._carry[:kept]
            filled = kept + self._stream.fill(view[kept : self._size])
            cut = filled
            self._carry = self._carry[kept:]
            if not self._carry:
                self._ended = filled < self._size
                cut = filled if self._ended else _scanner.last_boundary(view, 0, filled, self._key)
                self._carry = bytes(view[cut:filled])
        if cut == 0:
            return
        piece = Piece(buffer, cut, self._offset, self._scanner(), self._state)
        piece.reading = self._pool.submit(piece.scanner.scan, buffer, 0, cut, self._state)
        self._state = ELEMENT
        self._offset += cut
        self._flying.append(piece)

    def _scanner(self) -> _scanner.Scanner:
        return self._scanners.pop() if self._scanners else self._columns.scanner()


def _first_key(start: bytes) -> bytes:
    """The key, in quotes, with which the first event begins; events are written alike. Empty if unknown."""
    opening = start.lstrip()[:256]
    key = opening[1:].lstrip()
    end = key.find(b'"', 1)
    return key[: end + 1] if opening[:1] == b"{" and key[:1] == b'"' and end > 0 and b"\\" not in key[:end] else b""
