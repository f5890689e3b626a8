"""Appends to files that are opened for it and closed at once.

A file that stayed open would have a number that the job may close, and get again for a file of its own; and the job
would see other numbers than it does without us.
"""

from __future__ import annotations

import os

__all__ = ["append_bytes", "overwrite", "write_all", "write_new"]

_SAFE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)  # a link in our folder is somebody else's
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _SAFE
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _SAFE
_OWNERS = 0o600  # a command line, paths and lines of code are nobody else's business


def append_bytes(path: str, data: bytes) -> None:
    """Append `data` in one write: those of several processes never mix. Raises OSError."""
    _write(path, _APPEND, data)


def write_new(path: str, data: bytes) -> None:
    """Write the file `path` from its beginning. Raises OSError."""
    _write(path, _NEW_FILE, data)


def overwrite(path: str, data: bytes, offset: int) -> None:
    """Write over bytes of a file that is there. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | _SAFE)
    try:
        os.pwrite(descriptor, data, offset)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """os.write until all of it is written."""
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, data[written:])


def _write(path: str, flags: int, data: bytes) -> None:
    descriptor = os.open(path, flags, _OWNERS)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)
