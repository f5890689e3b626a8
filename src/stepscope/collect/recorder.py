"""The files of one training process: append-only, readable after a crash at any moment, never in the job's way."""

from __future__ import annotations

import os
import struct
import time

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .mapped import MappedFile

__all__ = [
    "ENDINGS",
    "HEADER_SIZE",
    "NOTES_SIZE",
    "BinaryFile",
    "Recorder",
    "append_line",
    "both_clocks",
    "clock_reading",
    "leave_ending",
    "leave_note",
]

ENDINGS = "endings.jsonl"
"""File of the run directory with the processes that have begun to end."""

HEADER_SIZE = 64
"""Bytes before the first record of a binary file."""

NOTES_SIZE = 4096
"""Bytes of blanks that notes.jsonl is created with: writing over them needs no free block of a full disk."""

_HEADER = struct.Struct("<16sIIqq24x")
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0)
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
_REASON_LENGTH = 400  # a note is one line for a person, not a log


def append_line(path: str, row: dict[str, Any]) -> None:
    """Append `row` to the JSON-lines file `path` in one write: lines of several processes never mix. Raises OSError."""
    descriptor = os.open(path, _APPEND, 0o644)
    try:
        _write_all(descriptor, _line(row))
    finally:
        os.close(descriptor)


def leave_note(run_dir: str, what: str, why: object) -> None:
    """A note beside the folders of the processes, for one that has no folder. Never raises."""
    try:
        append_line(os.path.join(run_dir, "notes.jsonl"), _note(what, why))
    except Exception:
        return


def leave_ending(run_dir: str, pid: int) -> None:
    """A line beside the folders of the processes: this one trains no more. Never raises."""
    try:
        append_line(os.path.join(run_dir, ENDINGS), {"pid": pid, "monotonic_ns": time.monotonic_ns()})
    except Exception:
        return


class BinaryFile:
    """A file of fixed-size records behind a 64-byte header; the kernel has every record when `write` returns."""

    __slots__ = ("_descriptor", "_record_size")

    def __init__(self, path: str, magic: bytes, record_size: int, epoch_ns: int, monotonic_ns: int) -> None:
        self._descriptor = os.open(path, _NEW_FILE, 0o644)
        self._record_size = record_size
        _write_all(self._descriptor, _HEADER.pack(magic, HEADER_SIZE, record_size, epoch_ns, monotonic_ns))

    def write(self, records: bytes) -> None:
        """Append whole records. Raises OSError when the disk is full, ValueError after `close`."""
        if self._descriptor < 0:
            raise ValueError("write to a closed record file")
        _write_all(self._descriptor, records)

    def writer(self) -> Callable[[bytes], None]:
        """A quicker `write` of one record, for a caller that counts nanoseconds and writes nothing after `close`."""
        write, descriptor, size = os.write, self._descriptor, self._record_size

        def write_one(record: bytes) -> None:
            if write(descriptor, record) != size:
                raise OSError("the disk is full: a record was written in part")

        return write_one

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class Recorder:
    """All files of one process in `directory`, which is made here. Raises OSError when it cannot be written.

    `epoch_ns` and `monotonic_ns` are one moment on the wall clock and on time.monotonic_ns, for every header; reading
    both took `took_ns`.
    """

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        self.epoch_ns, self.monotonic_ns, self.took_ns = both_clocks()
        self.noted = 0
        self._closed = False
        self._binaries: list[BinaryFile | MappedFile] = []
        self._appended: dict[str, int] = {}
        self._notes = os.open(os.path.join(directory, "notes.jsonl"), _NEW_FILE, 0o644)
        self._notes_end = 0
        _write_all(self._notes, b" " * (NOTES_SIZE - 1) + b"\n")

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Append one JSON line to the file `name`. Raises OSError, and ValueError after `close`."""
        if self._closed:
            raise ValueError("write to a closed recorder")
        descriptor = self._appended.get(name)
        if descriptor is None:
            descriptor = self._appended[name] = os.open(os.path.join(self.directory, name), _APPEND, 0o644)
        _write_all(descriptor, _line(row))

    def write_json(self, name: str, row: dict[str, Any]) -> None:
        """Write the file `name` whole: a reader sees the old content or the new, never half of it. Raises OSError."""
        path = os.path.join(self.directory, name)
        descriptor = os.open(path + ".new", _NEW_FILE, 0o644)
        try:
            _write_all(descriptor, _line(row))
        finally:
            os.close(descriptor)
        os.replace(path + ".new", path)

    def open_binary(self, name: str, magic: bytes, record_size: int) -> BinaryFile:
        """A new file `name` of records of `record_size` bytes, its header written. Raises OSError."""
        path = os.path.join(self.directory, name)
        binary = BinaryFile(path, magic, record_size, self.epoch_ns, self.monotonic_ns)
        self._binaries.append(binary)
        return binary

    def open_mapped(self, name: str, magic: bytes, record_size: int) -> BinaryFile | MappedFile:
        """`open_binary`, written through shared memory where the disk can promise room for it. Raises OSError."""
        from .mapped import MappedFile, reserves  # not at the top: most processes of a job never make a step

        if not reserves(self.directory):
            return self.open_binary(name, magic, record_size)
        header = _HEADER.pack(magic, HEADER_SIZE, record_size, self.epoch_ns, self.monotonic_ns)
        try:
            mapped = MappedFile(os.path.join(self.directory, name), header, record_size)
        except (OSError, ValueError):
            return self.open_binary(name, magic, record_size)
        self._binaries.append(mapped)
        return mapped

    def note(self, what: str, why: object) -> None:
        """Say what was not recorded and why. Never raises: it is called when things have already gone wrong."""
        try:
            self.noted += 1
            self._notes_end += os.pwrite(self._notes, _line(_note(what, why)), self._notes_end)
        except Exception:
            return

    def close(self) -> None:
        """Close every file; a second call does nothing."""
        self._closed = True
        for binary in self._binaries:
            binary.close()
        descriptors = [*self._appended.values(), self._notes]
        self._appended, self._notes = {}, -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)


def both_clocks() -> tuple[int, int, int]:
    """Wall clock and monotonic clock of one moment: the tightest of a few readings; and how long that one took.

    The wall clock was read somewhere within that time, the monotonic one stands for the middle of it.
    """
    readings = []
    for _ in range(3):
        before, epoch, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after - before, epoch, (before + after) // 2))
    took, epoch, monotonic = min(readings)
    return epoch, monotonic, took


def clock_reading() -> dict[str, int]:
    """`both_clocks` as it is written into files."""
    return dict(zip(("epoch_ns", "monotonic_ns", "took_ns"), both_clocks()))


def _note(what: str, why: object) -> dict[str, Any]:
    reason = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
    return {"what": what, "why": reason[:_REASON_LENGTH], "epoch_ns": time.time_ns()}


def _line(row: dict[str, Any]) -> bytes:
    import json  # not at the top: most processes of a job never write a line

    return json.dumps(row, default=str, separators=(",", ":")).encode("utf-8", "backslashreplace") + b"\n"


def _write_all(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, data[written:])
