"""A file of records written through shared memory: a system call a step costs more than the rest of the record.

A store into a map cannot say that the disk is full: it kills the job (SIGBUS). So the blocks are reserved before, a map
is used only where a reservation holds, and the compiled writer has the kernel touch the place of a record before it
stores one: a file that somebody else has cut short is an error, too. The number of whole records is stored after each
one: a record that a killed job left half written is not counted.

No descriptor stays open: a job may close all there are and get the same numbers for files of its own.
"""

from __future__ import annotations

import errno
import os

from .fields import compiled

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CHUNKS", "COUNT_OFFSET", "MappedFile", "file_system", "identity", "is_far", "reopened", "reserves"]

COUNT_OFFSET = 40
"""Where the header has the number of whole records, int64; aligned, so that it is stored in one piece."""

CHUNKS = (256 * 1024, 32 * 1024, 4096)
"""Bytes that a file grows by: 3,000 steps at once; less only on a disk that has no more."""

_RESERVING = frozenset(("ext2", "ext3", "ext4", "xfs", "tmpfs", "overlay"))  # others copy on write, or are far away
_COPYING = frozenset(("btrfs", "zfs", "f2fs", "bcachefs", "ramfs"))  # of this machine all the same
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_CLOSED_BY_EXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_TRUNC | _CLOSED_BY_EXEC
_SAME_FILE = os.O_RDWR | _CLOSED_BY_EXEC


def reserves(directory: str, mounts: str = "/proc/self/mountinfo") -> bool:
    """Does the file system of `directory` keep the blocks that were reserved? False where nobody can tell."""
    return hasattr(os, "posix_fallocate") and file_system(directory, mounts) in _RESERVING


def is_far(directory: str, mounts: str = "/proc/self/mountinfo") -> bool:
    """May a write to `directory` wait for another machine? True where nobody can tell which file system it is on."""
    return file_system(directory, mounts) not in _RESERVING | _COPYING


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

    __slots__ = ("_file", "_header_size", "_path", "_pid", "_record_size", "_reserved", "_writer")

    def __init__(self, path: str, header: bytes, record_size: int) -> None:
        if compiled is None:
            raise ValueError("the compiled writer is not there")
        self._path, self._header_size, self._record_size, self._pid = path, len(header), record_size, os.getpid()
        descriptor = os.open(path, _NEW_FILE, 0o600)
        try:
            self._file = identity(descriptor)
            self._reserved = os.write(descriptor, header)
        finally:
            os.close(descriptor)
        self._writer = compiled.Writer(self._grown, len(header), record_size)

    def writer(self) -> Callable[[bytes], None]:
        """The function that appends one record. It raises OSError when the disk is full or the file is not ours any
        more, ValueError after `close`."""
        return self._writer  # type: ignore[no-any-return]

    def write(self, records: bytes) -> None:
        """Append whole records."""
        for begin in range(0, len(records), self._record_size):
            self._writer(records[begin : begin + self._record_size])

    def close(self) -> None:
        """Cut the file to the records that it has; a second call does nothing. A forked child only lets go of it.

        Raises OSError where the file is not there any more.
        """
        count = self._writer.close()
        if count is None or self._pid != os.getpid():
            return
        descriptor = self._opened()
        try:
            os.ftruncate(descriptor, self._header_size + count * self._record_size)
        finally:
            os.close(descriptor)

    def _grown(self) -> int:
        """A descriptor of the file with room for more records, which the writer closes."""
        descriptor = self._opened()
        try:
            self._reserved = _reserve(descriptor, self._reserved)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _opened(self) -> int:
        return reopened(self._path, self._file)


def reopened(path: str, file: tuple[int, int] | None) -> int:
    """A descriptor of the file that is `file`. Raises OSError, also where another has taken its place."""
    descriptor = os.open(path, _SAME_FILE)
    if identity(descriptor) != file:
        os.close(descriptor)
        raise OSError(errno.ESTALE, "another file has taken the place of stepscope's")
    return descriptor


def identity(descriptor: int) -> tuple[int, int]:
    """Which file `descriptor` is of."""
    status = os.fstat(descriptor)
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
