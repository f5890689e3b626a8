"""Binary records of a process: a 64-byte header, then records of one size; a part of a record at the end is ignored.

The header may have the number of whole records; where it has 0 the size of the file tells.
"""

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.core.places import AnyPath
from stepscope.importers.run_dir.json_files import Note

__all__ = ["DEVICE_STEP", "LINE", "LOADING", "STEP", "Kind", "Records", "read_clocks", "read_records"]

_HEADER = struct.Struct("<16sIIqqq")  # magic, header size, record size, two clocks, number of records


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of record file: the magic text it begins with and the fields of a record, little endian.

    A file may have been made longer than its records: `never_zero` is the field that tells a record from blanks.
    """

    magic: bytes
    record: np.dtype[np.void]
    never_zero: str | None = None


STEP = Kind(
    b"STEPSCOPE-STEPS1",
    np.dtype([
        *((name, "<i8") for name in (
            "step", "start", "end", "data_wait", "forward", "backward", "optimizer", "evaluation_wait", "gc", "samples",
        )),
        ("micro_batches", "<i4"),
        ("flags", "<u4"),
    ]),
    "end",
)  # fmt: skip
"""steps.bin: times on the monotonic clock, ns; -1 for what was not observed."""

DEVICE_STEP = Kind(b"STEPSCOPE-DEVIC1", np.dtype([("step", "<i8"), ("duration", "<i8")]))
"""device_steps.bin: ns between the CUDA events at the end of the step before and of this step."""

LINE = Kind(
    b"STEPSCOPE-LINES1",
    np.dtype(
        [("time", "<i8"), ("step", "<i8"), ("weight", "<i8"), ("stack", "<u4"), ("phase", "<u2"), ("flags", "<u2")]
    ),
)
"""lines.bin: samples of the running line."""

LOADING = Kind(
    b"STEPSCOPE-LOADS1",
    np.dtype([
        *((name, "<i8") for name in ("start", "wall", "cpu", "sample")),
        ("batch", "<i4"),
        ("name", "<u4"),
        ("count", "<u4"),
        *((name, "<u2") for name in ("weight", "iterator", "epoch")),
        ("flags", "u1"),
        ("stage", "u1"),
    ]),
    "stage",
)  # fmt: skip
"""Spans of the input pipeline; the stage is written last, so a record with one is whole."""


@dataclass(frozen=True, slots=True)
class Records:
    """Whole records of a file; `to_epoch` added to a monotonic time gives ns since the epoch."""

    rows: npt.NDArray[np.void]
    to_epoch: int


def read_clocks(path: AnyPath) -> tuple[int, int] | None:
    """Wall clock and monotonic clock in the header of a file of records; None where there is none."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER.size)
    except OSError:
        return None  # who reads the records says so
    if len(header) < _HEADER.size or not header.startswith(b"STEPSCOPE-"):
        return None
    epoch, monotonic = _HEADER.unpack(header)[3:5]
    return epoch, monotonic


def read_records(path: AnyPath, kind: Kind, note: Note) -> Records | None:
    """The records of `path`; None if there is no such file, or (noted) if it is none of this kind.

    Records may be longer than this version knows: what comes after the known fields is passed over.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        note(f"{path.name} cannot be read ({error.strerror}): not read", 1)
        return None
    if len(data) < _HEADER.size:
        note(f"{path.name} {'ends within its header' if data else 'is empty'}: not read", 1)
        return None
    magic, header_size, record_size, epoch, monotonic, complete = _HEADER.unpack_from(data)
    if magic != kind.magic or header_size < _HEADER.size or record_size < kind.record.itemsize:
        note(f"{path.name} is not of the kind that this version reads: not read", 1)
        return None
    count = max(0, len(data) - header_size) // record_size
    whole = np.frombuffer(data, dtype=np.uint8, count=count * record_size, offset=min(header_size, len(data)))
    known = whole.reshape(count, record_size)[:, : kind.record.itemsize]
    rows = np.ascontiguousarray(known).view(kind.record).reshape(count)
    if complete > 0:
        if count < complete:
            note(f"{path.name} is cut short: {count} of its {complete} records are left", 1)
        rows = rows[:complete]
    elif kind.never_zero is not None:
        rows = rows[rows[kind.never_zero] != 0]
    return Records(rows, epoch - monotonic)
