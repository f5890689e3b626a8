"""Memory timelines: what `torch.profiler.profile.export_memory_timeline()` writes, with the profiler's own categories.

Both forms of JSON are read, packed with gzip or not: the raw one (`.raw.json.gz`), a list of `[time, action, bytes,
category]`, and the plotted one (`.json`, `.json.gz`), a list of times and a list of sizes by category. The HTML form is
a picture, which is refused with the way to the others.

Rows of `memory` are changes of a category: blocks have no addresses here, and the file does not say which device it is
of. Where a block changes its category, that is two rows. What was there when the recording began is allocated at the
first time. Times: ns in the raw form, µs in the plotted one, by the clock of the profiler, ns since the Unix epoch or
since the start of the machine, as torch wrote them. The rank is that of the file's name, else 0.
"""

import gzip
import json
import re
import zlib

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.core.errors import BadInput
from stepscope.core.importing import Importer, Sink
from stepscope.core.paths import AnyPath, look_again
from stepscope.importers import rank_in_name

__all__ = ["CATEGORIES", "IMPORTER"]

Ints = npt.NDArray[np.int64]
CATEGORIES = (
    "parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "unknown"
)  # fmt: skip
"""Torch's categories in the order of their numbers in these files."""

_RAW = re.compile(rb"\s*\[\s*\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*[0-7]\s*\]")
_PLOTTED = re.compile(rb"\s*\[\s*\[\s*\d{10,}\s*(?:,\s*\d{10,}\s*)*(?:,\s*\d*\Z|\Z|\]\s*,\s*\[\s*\[\s*0\s*,)")
_PICTURE = b"<title>GPU Memory Timeline HTML</title>"
_GZIP = b"\x1f\x8b"
_CHANGED = 3  # the action of a block that gets another version, and perhaps another category
_US = 1000  # ns
_BEFORE = -1  # the time of what was there before
_AGAIN = (
    'Write it again with prof.export_memory_timeline("timeline.raw.json.gz"), or record the job with '
    "`stepscope run --trace 10:13 --with memory -- COMMAND`."
)
_ODD = "event of a memory timeline that is not as torch writes it: left out"


def sniff(path: AnyPath, head: bytes) -> bool:
    """A list of raw events, a list that begins with a list of times, or the picture."""
    return bool(_RAW.match(head) or _PLOTTED.match(head)) or _PICTURE in head


def read(path: AnyPath, sink: Sink) -> None:
    """Fill the tables memory and processes. Raises BadInput if the file holds no timeline."""
    content = _json(path)
    if not isinstance(content, list) or not content:
        raise BadInput(path, "not a memory timeline: a list of events is expected", next_step=_AGAIN)
    plotted = len(content) == 2 and all(isinstance(part, list) for part in content) and _is_matrix(content[1])
    time, size, category = _changes(path, *content) if plotted else _events(path, content, sink)
    if not len(time):
        raise BadInput(path, "a memory timeline without events", next_step=_AGAIN)
    rank, rank_source = rank_in_name(path)
    sink.add(
        "memory",
        {
            "rank": [rank] * len(time), "index": range(len(time)), "time": pl.Series(time),
            "bytes": pl.Series(size), "total_allocated": pl.Series(np.cumsum(size)),
            "category": pl.Series(CATEGORIES).gather(category),
        },
    )  # fmt: skip
    sink.row("processes", rank=rank, rank_source=rank_source, framework="torch", source=str(path))


def _json(path: AnyPath) -> object:
    try:
        raw = path.read_bytes()
    except OSError as error:
        why = (error.strerror or "it cannot be read").lower()
        raise BadInput(path, why, next_step=look_again(path)) from error
    try:
        text = gzip.decompress(raw) if raw.startswith(_GZIP) else raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(path, f"the gzip stream is damaged ({error})", next_step=_AGAIN) from error
    if _PICTURE in text:
        why = "the HTML form of a memory timeline, which holds a picture and no numbers"
        raise BadInput(path, why, next_step=_AGAIN)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(path, f"not whole JSON ({error})", next_step=_AGAIN) from error


def _is_matrix(rows: list[object]) -> bool:
    """Whether every row has a leading 0 and one size for each category."""
    return bool(rows) and all(isinstance(row, list) and len(row) == len(CATEGORIES) + 1 for row in rows)


def _events(path: AnyPath, rows: list[object], sink: Sink) -> tuple[Ints, Ints, Ints]:
    """Times, bytes and categories of raw events, without changes of version that keep the category."""
    whole = [row for row in rows if _is_event(row)]
    sink.skip(str(path), _ODD, len(rows) - len(whole))
    if not whole:
        raise BadInput(path, "not a memory timeline: no list of [time, action, bytes, category]", next_step=_AGAIN)
    time, action, size, category = np.array(whole, dtype=np.int64).T
    first = (action[:-1] == _CHANGED) & (action[1:] == _CHANGED) & (size[:-1] == -size[1:])
    first &= (category[:-1] == category[1:]) & (size[:-1] < 0)
    kept = ~(np.append(first, False) | np.insert(first, 0, False))
    return _begun(time)[kept], size[kept], category[kept]


def _is_event(row: object) -> bool:
    if not isinstance(row, list) or len(row) != 4 or not all(type(value) is int for value in row):
        return False
    return 0 <= row[3] < len(CATEGORIES) and all(abs(value) < 2**62 for value in row)


def _changes(path: AnyPath, times: list[object], sizes: list[object]) -> tuple[Ints, Ints, Ints]:
    """The same of a plot: what changes from one time to the next. What shrinks comes first, so no sum is too high."""
    try:
        time, levels = np.array(times, dtype=np.int64) * _US, np.array(sizes, dtype=np.int64)[:, 1:]
    except (ValueError, TypeError, OverflowError) as error:
        raise BadInput(path, f"not a memory timeline: {error}", next_step=_AGAIN) from error
    if time.ndim != 1 or len(time) != len(levels):
        raise BadInput(path, "not a memory timeline: as many times as sizes are expected", next_step=_AGAIN)
    steps = np.diff(levels, axis=0, prepend=0)
    moment, category = np.nonzero(steps)
    order = np.lexsort((steps[moment, category] > 0, moment))
    moment, category = moment[order], category[order]
    return time[moment], steps[moment, category], category


def _begun(time: Ints) -> Ints:
    """Times, with those of what was there before set to the first one known."""
    known = time[time > _BEFORE]
    return np.where(time > _BEFORE, time, known.min() if len(known) else 0)


IMPORTER = Importer(sniff=sniff, read=read, clock="the profiler's clock, ns since the Unix epoch or its own zero")
