"""The bytes of a trace file as a stream, unpacked if they are gzip, without the whole text in memory."""

import gzip
import io
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from isal import igzip_lib

from stepscope.core.paths import AnyPath
from stepscope.importers.kineto.source import BAD_CHECKSUM, BYTES_BEHIND, check_packing, damage_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Damaged", "Stream", "opened"]

_GZIP = b"\x1f\x8b"
_DEFLATE = 8
_READ_AT_ONCE = 256 * 1024  # bytes of a packed file
_UNPACKED_AT_ONCE = (
    96 * 1024
)  # bytes; larger blocks are fresh memory each time, and touching it costs more than unpacking


_UNPACKING = cast("type[Exception]", igzip_lib.error)


_HAS_CHECKSUM, _HAS_MORE, _HAS_NAME, _HAS_COMMENT = 2, 4, 8, 16  # flags in the header of a gzip member
_HEADER, _TRAILER = struct.Struct("<2sBB6x"), struct.Struct("<II")
_LENGTH = struct.Struct("<H")


class Damaged(Exception):
    """The gzip stream is cut or cannot be unpacked: only the standard library's reader yields all that is before."""


class _Source(Protocol):
    damage: str

    def readinto(self, view: memoryview, /) -> int: ...


class Stream:
    """Fills buffers with the unpacked bytes of `file` at `path`, whose size is `total` (None: unknown).

    A gzip stream whose checksum is wrong, or that other bytes follow, ends there, and `damage` says so. Any other
    damage raises Damaged; with `to_the_damage` the stream ends there too, but takes ten times as long to unpack.
    """

    def __init__(self, path: AnyPath, file: BinaryIO, total: int | None, *, to_the_damage: bool) -> None:
        self._path, self._counted, self.total = path, _Counted(file), total
        self._filled = 0
        buffered = io.BufferedReader(self._counted, _READ_AT_ONCE)
        self._packed: _Source | None = None
        self._buffered = buffered
        if buffered.peek(len(_GZIP)).startswith(_GZIP):
            self._packed = _Repaired(buffered) if to_the_damage else _Unpacked(buffered)

    @property
    def done(self) -> int:
        """Bytes of the file that were read."""
        return self._counted.count

    @property
    def damage(self) -> str:
        """What is wrong with the gzip stream, as far as it was read; nothing if it is sound."""
        return self._packed.damage if self._packed is not None else ""

    def fill(self, view: memoryview) -> int:
        """Fill `view`; fewer bytes than it has room for mean the end."""
        filled = 0
        source = self._packed or self._buffered
        while filled < len(view):
            count = source.readinto(view[filled:])
            if not count:
                break
            filled += count
            self._filled += count
            if self._packed is not None:
                check_packing(self._path, self._filled, self._counted.count)
        return filled


class _Counted(io.RawIOBase):
    """Counts the bytes of a file that is only read on and on, as files elsewhere are."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, view: "Buffer", /) -> int:
        count = self._file.readinto(view)  # type: ignore[attr-defined]
        self.count += count
        return int(count)


class _Unpacked:
    """The members of a gzip stream, one behind the other. Its end is told before its checksum is judged, so that what
    was unpacked is all given out before."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._input = b""  # read, but given to no member yet
        self._length = 0  # bytes that the member at hand has given
        self._member: igzip_lib.IgzipDecompressor | None = self._next()
        self.damage = ""

    def readinto(self, view: memoryview, /) -> int:
        while self._member is not None:
            piece = self._piece(min(len(view), _UNPACKED_AT_ONCE))
            if piece:
                view[: len(piece)] = piece
                self._length += len(piece)
                return len(piece)
            if self._member.eof:
                self._member = self._following(self._member)
        return 0

    def _piece(self, most: int) -> bytes:
        """What the member at hand gives next, nothing at its end."""
        member = self._member
        if member is None or member.eof:
            return b""
        if member.needs_input and not self._input:
            self._input = self._file.read(_READ_AT_ONCE)
            if not self._input:
                raise Damaged("it ends too early")
        given, self._input = self._input, b""
        try:
            return member.decompress(given, most)
        except _UNPACKING as error:
            raise Damaged(str(error)) from error

    def _following(self, member: igzip_lib.IgzipDecompressor) -> igzip_lib.IgzipDecompressor | None:
        """The member behind one that has ended, if there is one."""
        self._input = member.unused_data + self._input
        if (member.crc, self._length % (1 << 32)) != _TRAILER.unpack(self._taken(_TRAILER.size)):
            self.damage = BAD_CHECKSUM
            return None
        while self._more(1) and not self._input.lstrip(b"\0"):
            self._input = b""  # members may have blanks behind them
        self._input = self._input.lstrip(b"\0")
        if not self._input:
            return None
        self._length = 0
        if self._more(len(_GZIP)) and not self._input.startswith(_GZIP):
            self.damage = BYTES_BEHIND
            return None
        return self._next()

    def _next(self) -> igzip_lib.IgzipDecompressor:
        """Read over the header of a member."""
        _, method, flags = _HEADER.unpack(self._taken(_HEADER.size))
        if method != _DEFLATE:
            raise Damaged("an unknown method of packing")
        if flags & _HAS_MORE:
            self._taken(*_LENGTH.unpack(self._taken(_LENGTH.size)))
        for _ in range(bool(flags & _HAS_NAME) + bool(flags & _HAS_COMMENT)):
            while self._taken(1) != b"\0":
                pass
        self._taken(_LENGTH.size if flags & _HAS_CHECKSUM else 0)
        return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP_NO_HDR)

    def _more(self, size: int) -> bool:
        """Whether so many bytes are there still."""
        while len(self._input) < size:
            more = self._file.read(_READ_AT_ONCE)
            if not more:
                return False
            self._input += more
        return True

    def _taken(self, size: int) -> bytes:
        if not self._more(size):
            raise Damaged("it ends too early")
        taken, self._input = self._input[:size], self._input[size:]
        return taken


class _Repaired:
    """A gzip stream by the standard library's reader, which gives everything before damage."""

    def __init__(self, file: BinaryIO) -> None:
        self._stream = gzip.GzipFile(fileobj=file, mode="rb")
        self.damage = ""

    def readinto(self, view: memoryview, /) -> int:
        if self.damage:
            return 0
        try:
            piece = self._stream.read1(min(len(view), _UNPACKED_AT_ONCE))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self.damage = damage_of(error)
            return 0
        view[: len(piece)] = piece
        return len(piece)


@contextmanager
def opened(path: AnyPath, *, to_the_damage: bool = False) -> Iterator[Stream]:
    """The stream of a local file, or of any other path that opens as one. Raises OSError if it cannot be read."""
    with path.open("rb") as file:
        yield Stream(path, file, _size(path), to_the_damage=to_the_damage)


def _size(path: AnyPath) -> int | None:
    try:
        return int(path.stat().st_size)
    except (OSError, NotImplementedError):
        return None
