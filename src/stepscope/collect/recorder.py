"""The files of one training process: append-only, readable after a crash at any moment, never in the job's way."""

from __future__ import annotations

import os
import time

from ..run_format.files import ENDINGS
from ..run_format.records import header
from .append import append_bytes, write_new
from .notes import Notes, leave_note, line

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .mmap_file import MappedFile
    from .outbox import Outbox

__all__ = [
    "BinaryFile",
    "Recorder",
    "append_line",
    "both_clocks",
    "clock_reading",
    "leave_ending",
    "leave_note",
]


def append_line(path: str, row: dict[str, Any]) -> None:
    """Append `row` to the JSON-lines file `path` in one write: lines of several processes never mix. Raises OSError."""
    append_bytes(path, line(row))


def leave_ending(run_dir: str, pid: int) -> None:
    """A line beside the folders of the processes: this one trains no more. Never raises."""
    try:
        append_line(os.path.join(run_dir, ENDINGS), {"pid": pid, "monotonic_ns": time.monotonic_ns()})
    except Exception:
        return


class BinaryFile:
    """A file of fixed-size records behind a 64-byte header. `append(path, data)` says how it grows; by default the
    kernel has every record when `write` returns."""

    __slots__ = ("_append", "_path")

    def __init__(
        self,
        path: str,
        magic: bytes,
        record_size: int,
        epoch_ns: int,
        monotonic_ns: int,
        append: Callable[[str, bytes], None] = append_bytes,
    ) -> None:
        write_new(path, header(magic, record_size, epoch_ns, monotonic_ns))
        self._path, self._append = path, append

    def write(self, records: bytes) -> None:
        """Append whole records. Raises OSError when the disk is full, ValueError after `close`."""
        if not self._path:
            raise ValueError("write to a closed record file")
        self._append(self._path, records)

    def writer(self) -> Callable[[bytes], None]:
        """`write`, for a caller that holds on to the function."""
        return self.write

    def close(self) -> None:
        """Take no more; a second call does nothing."""
        self._path = ""


class Recorder:
    """All files of one process in `directory`, which is made here. Raises OSError when it cannot be written.

    `epoch_ns` and `monotonic_ns` are one moment on the wall clock and on time.monotonic_ns, for every header; reading
    both took `took_ns`. No file is open between two calls. Where the disk is another machine's, a thread writes.
    """

    def __init__(self, directory: str) -> None:
        from .mmap_file import is_far  # not at the top: most processes of a job never make a step

        os.makedirs(directory, 0o700, exist_ok=True)
        self.directory = directory
        self.epoch_ns, self.monotonic_ns, self.took_ns = both_clocks()
        self.noted = 0
        self._closed, self._pid = False, os.getpid()
        self._binaries: list[BinaryFile | MappedFile] = []
        self._outbox: Outbox | None = None
        self._append: Callable[[str, bytes], None] = append_bytes
        self._notes = Notes(directory)
        if is_far(directory):
            from .outbox import Outbox

            self._outbox = Outbox()
            self._append = self._outbox.put

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Append one JSON line to the file `name`. Raises OSError, and ValueError after `close`."""
        if self._closed:
            raise ValueError("write to a closed recorder")
        self._append(os.path.join(self.directory, name), line(row))

    def write_json(self, name: str, row: dict[str, Any]) -> None:
        """Write the file `name` whole: a reader sees the old content or the new, never half of it. Raises OSError."""
        path = os.path.join(self.directory, name)
        write_new(path + ".new", line(row))
        os.replace(path + ".new", path)

    def open_binary(self, name: str, magic: bytes, record_size: int) -> BinaryFile:
        """A new file `name` of records of `record_size` bytes, its header written. Raises OSError."""
        path = os.path.join(self.directory, name)
        binary = BinaryFile(path, magic, record_size, self.epoch_ns, self.monotonic_ns, self._append)
        self._binaries.append(binary)
        return binary

    def open_mapped(self, name: str, magic: bytes, record_size: int) -> BinaryFile | MappedFile:
        """`open_binary`, written through shared memory where the disk can promise room for it. Raises OSError."""
        from .mmap_file import MappedFile, reserves

        if not reserves(self.directory):
            return self.open_binary(name, magic, record_size)
        head = header(magic, record_size, self.epoch_ns, self.monotonic_ns)
        try:
            mapped = MappedFile(os.path.join(self.directory, name), head, record_size)
        except (OSError, ValueError):
            return self.open_binary(name, magic, record_size)
        self._binaries.append(mapped)
        return mapped

    def note(self, what: str, why: object) -> None:
        """Say what was not recorded and why. Never raises: it is called when things have already gone wrong."""
        self.noted += 1
        self._notes.note(what, why)

    def close(self) -> None:
        """Finish every file; a second call does nothing. Raises OSError for the last one that could not be."""
        if self._closed:
            return
        self._closed = True
        failure: OSError | None = None
        for binary in self._binaries:
            try:
                binary.close()
            except OSError as error:
                failure = error
        if self._pid == os.getpid():
            self._notes.close()
        if self._outbox is not None:
            self._outbox.close()
        if failure is not None:
            raise failure


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
