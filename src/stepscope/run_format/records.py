"""Binary files of a run folder: a 64-byte header, then records of one size, little endian.

A file may be longer than its records, and its last record may be half written. A later version may append fields to a
record, never change one.
"""

from __future__ import annotations

import struct

__all__ = [
    "DEVICE_STEP", "FLAG_BY_BACKWARD", "FLAG_CLOSURE", "FLAG_COLLECTOR", "FLAG_EPOCH_END", "FLAG_EPOCH_START",
    "FLAG_EVALUATION", "FLAG_FOREIGN_LOADER", "FLAG_NO_DATA_WAIT", "FLAG_TRACED", "FLAG_TRACING", "HEADER", "LINE",
    "OLD_STEP_MAGIC", "SPAN", "STAGES", "STEP", "STEP_TAGS", "Kind", "header",
]  # fmt: skip

HEADER = struct.Struct("<16sIIqqqq8x")
"""Magic, bytes of the header, bytes of a record, the wall clock and the monotonic clock of one moment in ns, the number
of records (0: the size of the file tells), and in `steps.old.bin` how many records of `steps.bin` these stand for."""


def header(magic: bytes, record_size: int, epoch: int, monotonic: int, count: int = 0, replaced: int = 0) -> bytes:
    """The first 64 bytes of a file of records."""
    return HEADER.pack(magic, HEADER.size, record_size, epoch, monotonic, count, replaced)


class Kind:
    """One kind of record file: the 16 bytes that it begins with, and the fields of a record.

    `fields` are pairs of a name and a code of module struct. `never_zero` names the field that tells a record from
    blanks, where a file is made longer than its records.
    """

    __slots__ = ("fields", "magic", "never_zero", "struct")

    def __init__(self, magic: bytes, fields: tuple[tuple[str, str], ...], never_zero: str | None = None) -> None:
        self.magic, self.fields, self.never_zero = magic, fields, never_zero
        self.struct = struct.Struct("<" + "".join(code for _, code in fields))


def _fields(**codes: str) -> tuple[tuple[str, str], ...]:
    """Fields by their code: `_fields(q="step start")`."""
    return tuple((name, code) for code, names in codes.items() for name in names.split())


STEP = Kind(
    b"STEPSCOPE-STEPS1",
    _fields(
        q="step start end data_wait forward backward optimizer evaluation_wait gc samples", i="micro_batches", I="flags"
    ),
    "end",
)
"""steps.bin: times on the monotonic clock, ns; -1 for what was not observed."""

FLAG_TRACED = 1
"""Of a step: it is in the trace."""
FLAG_TRACING = 2
"""Tracing was warmed up, started, stopped or exported next to the step, or in it."""
FLAG_EVALUATION = 4
FLAG_EPOCH_START = 8
FLAG_EPOCH_END = 16
FLAG_NO_DATA_WAIT = 32
FLAG_FOREIGN_LOADER = 64
FLAG_BY_BACKWARD = 128
"""The step ended when backward returned."""
FLAG_CLOSURE = 256

STEP_TAGS = (
    (FLAG_TRACED, "traced"),
    (FLAG_TRACING, "tracing"),
    (FLAG_EVALUATION, "evaluation"),
    (FLAG_EPOCH_START, "epoch-start"),
    (FLAG_EPOCH_END, "epoch-end"),
    (FLAG_NO_DATA_WAIT, "no-data-wait"),
    (FLAG_FOREIGN_LOADER, "foreign-loader"),
    (FLAG_BY_BACKWARD, "ended-by-backward"),
    (FLAG_CLOSURE, "closure"),
)
"""The tags of a step by its flags."""

OLD_STEP_MAGIC = b"STEPSCOPE-OLDSTP"
"""steps.old.bin: steps merged by the importer, whose records they are."""

DEVICE_STEP = Kind(b"STEPSCOPE-DEVIC1", _fields(q="step duration"), "duration")
"""device_steps.bin: ns between the CUDA events at the end of the step before and of this step."""

FLAG_COLLECTOR = 1
"""Of a sampled line: Python's garbage collector ran."""

LINE = Kind(b"STEPSCOPE-LINES1", _fields(q="time step weight", I="stack", H="phase flags"))
"""lines.bin: samples of the running line."""

SPAN = Kind(
    b"STEPSCOPE-LOADS1",
    _fields(q="start wall cpu sample", i="batch", I="name count", H="weight iterator epoch", B="flags stage"),
    "stage",
)
"""Spans of data loading; the stage is never 0 and is written last, so that a record with one is whole.

In the place of the sample a fetch has the time in ns that its thread waited for a core, -1 where nobody tells.
"""

STAGES = (
    None, "index wait", "fetch", "sample", "collate", "put", "serialize", "send", "send index", "wait", "receive",
    "pin", "transform", "decode", "read", "label", "start", "set up", "end", "start workers", "stop workers",
)  # fmt: skip
"""The stage of a span by its number.

In the main thread of a worker: index wait to put; in its feeder thread: serialize, send; in the main process: send
index to pin, start and stop workers; in a sample: transform to label; of a worker: start (until its loop begins), set
up (until it asks for work), end (its loop has ended).
"""
