"""A file of records written through shared memory: a system call a step costs more than the rest of the record.

A store into a map cannot say that the disk is full: it kills the job (SIGBUS). So the blocks are reserved before, and a
map is used only where a reservation holds. The number of whole records is stored after each one: a record that a
killed job left half written is not counted.
"""

from __future__ import annotations

import errno
import os
import struct

from .fields import compiled

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable
    from typing import Any

__all__ = ["CHUNKS", "COUNT_OFFSET", "MappedFile", "file_system", "reserves"]

COUNT_OFFSET = 40
"""Where the header has the number of whole records, int64; aligned, so that it is stored in one piece."""

CHUNKS = (256 * 1024, 32 * 1024, 4096)
"""Bytes that a file grows by: 3,000 steps at once; less only on a disk that has no more."""

_RESERVING = frozenset(("ext2", "ext3", "ext4", "xfs", "tmpfs", "overlay"))  # others copy on write, or are far away
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0)
_COUNT = struct.Struct("<q")


def reserves(directory: str, mounts: str = "/proc/self/mountinfo") -> bool:
    """Does the file system of `directory` keep the blocks that were reserved? False where nobody can tell."""
    return hasattr(os, "posix_fallocate") and file_system(directory, mounts) in _RESERVING


def file_system(directory: str, mounts: str = "/proc/self/mountinfo") -> str | None:
    """The type of the file system that `directory` is on, or None where it cannot be told."""
    found, depth, path = None, -1, os.fsencode(os.path.realpath(directory)) + b"/"
    try:
        with open(mounts, "rb") as file:
            for line in file:
                mount, _, source = line.partition(b" - ")
                point = mount.split(b" ", 5)[4].decode("unicode_escape").encode("latin-1").rstrip(b"/") + b"/"
                if path.startswith(point) and len(point) >= depth:  # of two on one point the later hides the other
                    found, depth = source.split(b" ", 1)[0].decode("ascii", "replace"), len(point)
    except (OSError, ValueError, IndexError):
        return None
    return found


class MappedFile:
    """Records of `record_size` bytes behind `header`; the kernel has every record when the writer returns.

    Raises OSError or ValueError where the file cannot be made, reserved or mapped.
    """

    __slots__ = ("_compiled", "_descriptor", "_file", "_header_size", "_map", "_pid", "_record_size", "_reserved")

    def __init__(self, path: str, header: bytes, record_size: int) -> None:
        self._header_size, self._record_size, self._pid = len(header), record_size, os.getpid()
        self._map: mmap.mmap | None = None
        self._compiled: Any = None  # the writer that has a mapping of its own
        self._descriptor = os.open(path, _NEW_FILE, 0o644)
        try:
            self._file = _identity(self._descriptor)
            self._reserved = os.write(self._descriptor, header)
            self._grow()
        except BaseException:
            os.close(self._descriptor)
            raise

    def writer(self) -> Callable[[bytes], None]:
        """The function that appends one record; a file has one. It raises OSError when the disk is full.

        After `close` it raises ValueError.
        """
        if compiled is not None:
            self._compiled = compiled.Writer(
                self._grow, self._descriptor, self._reserved, self._header_size, self._record_size
            )
            return self._compiled  # type: ignore[no-any-return]
        grow, publish, size = self._grow, _COUNT.pack_into, self._record_size
        space, limit, begin, count = self._map, self._reserved, self._header_size, 0

        def write(record: bytes) -> None:
            nonlocal space, limit, begin, count
            end = begin + size
            if end > limit:
                space = grow()
                limit = len(space)
            space[begin:end] = record  # type: ignore[index]
            begin = end
            count += 1
            publish(space, COUNT_OFFSET, count)  # type: ignore[arg-type]

        return write

    def close(self) -> None:
        """Cut the file to the records that it has; a second call does nothing. A forked child only lets go of it."""
        space, self._map = self._map, None
        if space is None:
            return
        if self._compiled is not None:
            self._compiled.close()  # before the file is cut: a store behind its end would kill the job
        (count,) = _COUNT.unpack_from(space, COUNT_OFFSET)
        space.close()
        descriptor, self._descriptor = self._descriptor, -1
        if _identity(descriptor) != self._file:
            return  # a job that closes all descriptors, as daemons do: by now it is a file of the job's own
        try:
            if self._pid == os.getpid():
                os.ftruncate(descriptor, self._header_size + count * self._record_size)
        finally:
            os.close(descriptor)

    def _grow(self) -> mmap.mmap:
        import mmap  # not at the top: most processes of a job never make a step

        if self._descriptor < 0:
            raise ValueError("write to a closed record file")
        if _identity(self._descriptor) != self._file:
            raise OSError(errno.EBADF, "the job has closed stepscope's file of steps")
        self._reserved = _reserve(self._descriptor, self._reserved)
        before, self._map = self._map, mmap.mmap(self._descriptor, self._reserved)
        if before is not None:
            before.close()
        return self._map


def _identity(descriptor: int) -> tuple[int, int] | None:
    """Which file `descriptor` is of, None for one that is closed."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _reserve(descriptor: int, size: int) -> int:
    """Give a file of `size` bytes more blocks; returns its new size. Raises OSError when the disk is full."""
    for chunk in CHUNKS[:-1]:
        try:
            os.posix_fallocate(descriptor, size, chunk)
            return size + chunk
        except OSError as error:
            if error.errno not in _FULL:
                raise
    os.posix_fallocate(descriptor, size, CHUNKS[-1])
    return size + CHUNKS[-1]
