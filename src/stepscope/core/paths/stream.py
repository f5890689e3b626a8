"""Read a remote file as a stream: a few pieces ahead, each asked for again when the connection breaks.

A piece that comes short is a break and not the end of the file: the length must be what the server said at the start,
and after the last piece the server must still say so.
"""

import asyncio
import io
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass

from stepscope.core.paths.failures import BrokenTransferError, failures, lasting, told

__all__ = ["ByteSource", "Stream"]

FIRST = 128 * 1024
"""Bytes of the first piece: enough to recognize a file, without fetching what may not be wanted."""

PIECE = 2 * 1024 * 1024
"""Bytes of every further piece: a round trip of 50 ms costs little, and little is lost when a connection breaks."""

_AHEAD = 4  # pieces on their way: one connection gives about 50 MB/s, a reader takes several hundred
_TRIES = 5  # those of a provider's own library, which may be as many again, count as one
_PAUSE = 0.2  # seconds before the second try, twice as long before each further one
_LONGEST = 60.0  # seconds for one piece: 140 kB/s with all that are on their way
_PATIENCE = 90.0  # seconds after which no try begins


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteSource:
    """Where the bytes come from: `fetch(start, end)`, which runs in `loop` and may raise any of `failures()`."""

    url: str
    size: int
    fetch: Callable[[int, int], Awaitable[bytes]]
    loop: asyncio.AbstractEventLoop


async def exactly(source: ByteSource, start: int, end: int) -> bytes:
    """The bytes from `start` to before `end`, all of them. Raises what `fetch` raises, or BrokenTransferError."""
    why, tries = "", 0
    cause: BaseException | None = None
    began = time.monotonic()
    while tries < _TRIES and time.monotonic() - began < _PATIENCE:
        if tries:
            await asyncio.sleep(_PAUSE * 2 ** (tries - 1))
        tries += 1
        try:
            async with asyncio.timeout(_LONGEST):
                data = await source.fetch(start, end)
        except failures() as error:
            if lasting(error):
                raise
            why, cause = f"the connection broke ({type(error).__name__})", error
        else:
            if len(data) == end - start:
                return data
            why, cause = f"{len(data)} bytes came instead of {end - start}", None
    raise BrokenTransferError(f"{why} at byte {start} of {source.size}, tried {tries} times") from cause


class Stream(io.RawIOBase):
    """The bytes of a source, in order and ahead of the reader; `seek` costs the pieces that are on their way."""

    def __init__(self, source: ByteSource, at_end: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._source, self._at_end = source, at_end
        self._position = 0
        self._piece, self._start = memoryview(b""), 0
        self._next = 0  # where the first piece begins that was not asked for
        self._ahead: deque[tuple[int, Future[bytes]]] = deque()
        self._checked = source.size <= FIRST  # one answer cannot be of two versions

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._source.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        if self._position >= self._source.size:
            self._check()
            return 0
        offset = self._position - self._start
        if not 0 <= offset < len(self._piece):
            self._advance()
            offset = 0
        part = self._piece[offset : offset + len(buffer)]
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)

    def close(self) -> None:
        self._drop()
        super().close()

    def _advance(self) -> None:
        """Make the piece that begins at the position the current one, and ask for those behind it."""
        if not self._ahead or self._ahead[0][0] != self._position:
            self._drop()
            self._next = self._position
            self._order(FIRST if self._position == 0 else PIECE)
        self._start, coming = self._ahead.popleft()
        if self._start:  # who reads on after the first piece reads all
            while len(self._ahead) < _AHEAD and self._next < self._source.size:
                self._order(PIECE)
        try:
            self._piece = memoryview(coming.result())
        except failures() as error:
            raise told(self._source.url, error) from error

    def _order(self, length: int) -> None:
        start, self._next = self._next, min(self._next + length, self._source.size)
        piece = exactly(self._source, start, self._next)
        self._ahead.append((start, asyncio.run_coroutine_threadsafe(piece, self._source.loop)))

    def _drop(self) -> None:
        for _, coming in self._ahead:
            coming.cancel()
        self._ahead.clear()

    def _check(self) -> None:
        if self._at_end and not self._checked:
            self._checked = True
            self._at_end()
