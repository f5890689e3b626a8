"""The bytes of a trace file as a stream, unpacked if they are gzip, without the whole text in memory."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from isal import igzip, igzip_lib

from stepscope.core.paths import AnyPath
from stepscope.importers.kineto.source import check_packing, damage_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Damaged", "Stream", "opened"]

_GZIP = b"\x1f\x8b"
_READ_AT_ONCE = 256 * 1024  # bytes of a packed file
_UNPACKED_AT_ONCE = (
    96 * 1024
)  # bytes; larger blocks are fresh memory each time, and touching it costs more than unpacking


_UNPACKING = cast("type[Exception]", igzip_lib.error)


class Damaged(Exception):
    """The gzip stream is damaged; only the standard library's reader yields everything before the damage."""


class _Source(Protocol):
    def readinto(self, view: memoryview, /) -> int: ...


class Stream:
    """Fills buffers with the unpacked bytes of `file` at `path`, whose size is `total` (None: unknown).

    A damaged gzip stream raises Damaged; with `to_the_damage` it ends there, and `damage` says what it is.
    """

    def __init__(self, path: AnyPath, file: BinaryIO, total: int | None, *, to_the_damage: bool) -> None:
        self._path, self._counted, self.total = path, _Counted(file), total
        self._filled = 0
        buffered = io.BufferedReader(self._counted, _READ_AT_ONCE)
        self._source: _Source
        self._buffered = buffered
        if not buffered.peek(len(_GZIP)).startswith(_GZIP):
            self._source = buffered
        else:
            self._source = _Repaired(buffered) if to_the_damage else _Unpacked(buffered)

    @property
    def done(self) -> int:
        """Bytes of the file that were read."""
        return self._counted.count

    @property
    def damage(self) -> str:
        """What is wrong with the gzip stream, as far as it was read; nothing if it is sound."""
        return self._source.damage if isinstance(self._source, _Repaired) else ""

    def fill(self, view: memoryview) -> int:
        """Fill `view`; fewer bytes than it has room for mean the end."""
        filled = 0
        while filled < len(view):
            count = self._source.readinto(view[filled:])
            if not count:
                break
            filled += count
            self._filled += count
            if self._source is not self._buffered:
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
    def __init__(self, file: BinaryIO) -> None:
        self._stream = igzip.IGzipFile(fileobj=file, mode="rb")  # type: ignore[no-untyped-call]

    def readinto(self, view: memoryview, /) -> int:
        try:
            return self._stream.readinto(view[:_UNPACKED_AT_ONCE])
        except (EOFError, gzip.BadGzipFile, _UNPACKING) as error:
            raise Damaged(str(error)) from error


class _Repaired:
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
