"""Binary records of a process: a 64-byte header, then records of one size; a part of a record at the end is ignored.

The header may have the number of whole records; where it has 0 the size of the file tells.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.core.paths import AnyPath
from stepscope.importers.run_dir.json_files import Note
from stepscope.importers.run_dir.rows import picked
from stepscope.run_format import records as written
from stepscope.run_format.records import HEADER

__all__ = [
    "DEVICE_STEP",
    "LINE",
    "SPAN",
    "STEP",
    "Kind",
    "RecordFile",
    "Records",
    "open_records",
    "read_clocks",
    "read_records",
]

PIECE = 1 << 16
"""Records that are read at a time: of steps, 6 MB."""

_LONGEST = 4096  # bytes of a record: a longer one is damage


_NUMPY = {"q": "<i8", "i": "<i4", "I": "<u4", "H": "<u2", "B": "u1"}  # of the codes of module struct


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of record file: the magic text it begins with and the fields of a record, little endian.

    A file may have been made longer than its records: `never_zero` is the field that tells a record from blanks.
    """

    magic: bytes
    record: np.dtype[np.void]
    never_zero: str | None = None


def _kind(kind: written.Kind) -> Kind:
    """As the recorder writes it."""
    return Kind(kind.magic, np.dtype([(name, _NUMPY[code]) for name, code in kind.fields]), kind.never_zero)


STEP, DEVICE_STEP, LINE, SPAN = map(_kind, (written.STEP, written.DEVICE_STEP, written.LINE, written.SPAN))


@dataclass(frozen=True, slots=True)
class Records:
    """Whole records of a file; `to_epoch` added to a monotonic time gives ns since the epoch."""

    rows: npt.NDArray[np.void]
    to_epoch: int


@dataclass(frozen=True, slots=True)
class RecordFile:
    """A file of records that is read in pieces: one of a long run is larger than memory."""

    path: AnyPath
    kind: Kind
    to_epoch: int
    _header_size: int
    _record_size: int
    _complete: int
    _note: Note
    first: int = 0
    """Records before it are passed over."""

    def pieces(self) -> Iterator[npt.NDArray[np.void]]:
        """Whole records, PIECE at most at a time. What cannot be read any more is noted."""
        left = self._complete - self.first if self._complete > 0 else None
        try:
            with self.path.open("rb") as file:
                file.seek(self._header_size + self.first * self._record_size)
                while left != 0 and len(data := file.read(PIECE * self._record_size)) >= self._record_size:
                    rows = self._rows(data)[:left]
                    left = None if left is None else left - len(rows)
                    yield rows if self._complete > 0 else self._written(rows)
        except OSError as error:
            self._note(f"{self.path.name} cannot be read ({error.strerror}): not read", 1)
            return
        if left:
            self._note(
                f"{self.path.name} is cut short: {self._complete - left} of its {self._complete} records are left", 1
            )

    def count(self) -> int:
        """The number of records, blanks behind them included. Raises OSError."""
        held = max(0, self.path.stat().st_size - self._header_size) // self._record_size
        held = min(held, self._complete) if self._complete > 0 else held
        return max(0, held - self.first)

    def place(self, record: int) -> int:
        """Where a record begins in the file."""
        return self._header_size + record * self._record_size

    def all(self) -> npt.NDArray[np.void]:
        """All records at once."""
        return np.concatenate([np.empty(0, self.kind.record), *self.pieces()])

    def check(self) -> None:
        """Note whether records are missing, without reading them."""
        try:
            left = self.count()
        except OSError as error:
            self._note(f"{self.path.name} cannot be read ({error.strerror}): not read", 1)
            return
        if left < self._complete - self.first:
            self._note(f"{self.path.name} is cut short: {left} of its {self._complete} records are left", 1)

    def _rows(self, data: bytes) -> npt.NDArray[np.void]:
        count = len(data) // self._record_size
        whole = np.frombuffer(data, dtype=np.uint8, count=count * self._record_size)
        known = whole.reshape(count, self._record_size)[:, : self.kind.record.itemsize]
        return np.ascontiguousarray(known).view(self.kind.record).reshape(count)

    def _written(self, rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        return rows if self.kind.never_zero is None else picked(rows, rows[self.kind.never_zero] != 0)


def read_clocks(path: AnyPath) -> tuple[int, int] | None:
    """Wall clock and monotonic clock in the header of a file of records; None where there is none."""
    try:
        with path.open("rb") as file:
            header = file.read(HEADER.size)
    except OSError:
        return None  # who reads the records says so
    if len(header) < HEADER.size or not header.startswith(b"STEPSCOPE-"):
        return None
    epoch, monotonic = HEADER.unpack(header)[3:5]
    return epoch, monotonic


def open_records(path: AnyPath, kind: Kind, note: Note) -> RecordFile | None:
    """The records of `path`; None if there is no such file, or (noted) if it is none of this kind.

    Records may be longer than this version knows: what comes after the known fields is passed over.
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEADER.size)
    except FileNotFoundError:
        return None
    except OSError as error:
        note(f"{path.name} cannot be read ({error.strerror}): not read", 1)
        return None
    if len(head) < HEADER.size:
        note(f"{path.name} {'ends within its header' if head else 'is empty'}: not read", 1)
        return None
    magic, header_size, record_size, epoch, monotonic, complete = HEADER.unpack(head)[:6]
    if magic != kind.magic or header_size < HEADER.size or not kind.record.itemsize <= record_size <= _LONGEST:
        note(f"{path.name} is not of the kind that this version reads: not read", 1)
        return None
    return RecordFile(path, kind, epoch - monotonic, header_size, record_size, complete, note)


def read_records(path: AnyPath, kind: Kind, note: Note) -> Records | None:
    """As `open_records`, all at once."""
    file = open_records(path, kind, note)
    if file is None:
        return None
    return Records(file.all(), file.to_epoch)
