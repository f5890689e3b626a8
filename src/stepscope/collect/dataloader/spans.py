"""The spans of one process: records of one size in reserved shared memory, and a side table of names.

Any thread may write without a lock: the next place in the file comes from an itertools.count, which is atomic. What a
killed process has not written is blank, and a record without its last field is none.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
import time
from _thread import allocate_lock

from ...run_format.files import LOADING
from ...run_format.records import HEADER, SPAN, STAGES, header
from ..fields import compiled
from ..guards import own_errors
from ..mmap_file import identity, reopened, reserves
from ..origins import Origins
from ..recorder import append_line, both_clocks, clock_reading, leave_note
from ..sources import Sources
from .overhead_budget import RESERVE_NS, SHARE, OverheadBudget, Reserve, Slowdown

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "COLLATE", "DECODE", "END", "FETCH", "FILES_LIMIT", "INDEX_WAIT", "LABEL", "LIMIT",
    "OTHER_LABELS", "PIN", "PUT", "READ", "RECEIVE", "SAMPLE", "SEND", "SEND_INDEX", "SERIALIZE", "SET_UP",
    "START", "START_WORKERS", "STOP_WORKERS", "TRANSFORM", "WAIT", "SpanFile", "open_spans",
]  # fmt: skip

(
    INDEX_WAIT, FETCH, SAMPLE, COLLATE, PUT, SERIALIZE, SEND, SEND_INDEX, WAIT, RECEIVE, PIN, TRANSFORM, DECODE, READ,
    LABEL, START, SET_UP, END, START_WORKERS, STOP_WORKERS,
) = range(1, len(STAGES))  # fmt: skip

FILES_LIMIT = 512
"""Files of a run: workers that do not persist are new ones in every epoch, and the first epochs tell enough."""

RESERVES_LIMIT = 64
"""Files of a run whose processes have a reserve: workers that start anew in each epoch would go on and on with it."""

LIMIT = 4 << 20
"""Bytes of a file: 80,000 spans. A file that fills up is written more and more rarely, so it does not end early."""

FULL_FILES = 24
"""Files of a run that may grow to LIMIT, 100 MB together: the workers of a few ranks that last."""

SMALL_LIMIT = 128 << 10
"""Bytes of any other file, 60 MB together: of workers that start anew in each epoch the first ones tell the most."""

OTHER_LABELS = "<other labels>"
"""Stands for the labels beyond the number that are told apart."""

_ORIGINS = Origins()  # workers that are forked have it from their parent
_FIRST = 16 << 10  # bytes reserved at first, then twice as many each time: a worker of few batches takes little room
_EIGHTHS = 8  # eighths of the limit: each is written to a fourth as often as the one before
_SAFE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)  # a link in our folder is somebody else's
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE
_MOST = 0xFFFF  # of the fields of 16 bits


def open_spans(
    run_dir: str, role: str, about: dict[str, Any], share: float = SHARE, source: bool = False
) -> SpanFile | None:
    """The file of this process, or None where its disk cannot promise room or there are files enough. Raises OSError.

    `role` is "main" or "worker"; `about` goes into the first line of the side table; `source`: lines of the user's
    code go into it, too.
    """
    folder = os.path.join(run_dir, LOADING)
    if not prepared(folder):
        raise OSError(errno.ENOTSUP, "the file system of the run does not promise room for a file")
    files = sum(name.endswith(".bin") for name in os.listdir(folder))
    if files >= FILES_LIMIT:
        return None
    path, reserve = f"{role}-{os.getpid()}-{time.monotonic_ns()}", RESERVE_NS if files < RESERVES_LIMIT else 0
    limit = LIMIT if files < FULL_FILES else SMALL_LIMIT
    spans = SpanFile(os.path.join(folder, path), {"kind": role, **about}, share, reserve, limit)
    if source:
        spans.sources = Sources(lambda row: spans.tell({"kind": "source", **row}), _ORIGINS)
    return spans


def prepared(folder: str) -> bool:
    """Make the folder of spans; can it hold any? Asked once: a forked worker knows what its parent found out."""
    if folder not in _prepared:
        os.makedirs(folder, exist_ok=True)
        _prepared[folder] = reserves(folder)
    return _prepared[folder]


_prepared: dict[str, bool] = {}


class SpanFile:
    """`path`.bin and `path`.jsonl. `lost` counts spans without room; `share` of the batches' CPU time may go into them,
    from `budget`, and again into those of samples, from `detail_budget`; besides `reserve` ns into both. `unrecorded`:
    of loaders without workers, how many batches at the end of the last iterator no recorded one stands for, and of how
    many the samples; `slowdowns` of the same loaders, by loader. `sources` takes the source of what has a name, None:
    none is kept."""

    __slots__ = (
        "_capacity",
        "_end",
        "_file",
        "_limit",
        "_lock",
        "_names",
        "_pid",
        "_space",
        "_take",
        "_whole",
        "budget",
        "detail_budget",
        "lost",
        "path",
        "share",
        "slowdowns",
        "sources",
        "unrecorded",
    )

    def __init__(
        self, path: str, about: dict[str, Any], share: float = SHARE, reserve: int = 0, limit: int = LIMIT
    ) -> None:
        self.path, self.lost, self.share, self._limit = path, 0, share, limit
        self.unrecorded: dict[int, tuple[int, int]] = {}  # batches at the ends of iterators, by loader
        self.slowdowns: dict[int | None, Slowdown] = {}
        self.sources: Sources | None = None
        common = Reserve(reserve)
        self.budget, self.detail_budget = OverheadBudget(share, common), OverheadBudget(share, common)
        self._pid = os.getpid()
        self._names: dict[Any, int] = {}
        self._lock = allocate_lock()
        self._take = itertools.count().__next__
        self._space: Any = b""
        self._capacity = self._end = HEADER.size
        self.tell({**about, "pid": self._pid, "ppid": os.getppid(), "host": socket.gethostname()})
        descriptor = os.open(path + ".bin", _NEW_FILE, 0o600)
        try:
            os.write(descriptor, header(SPAN.magic, _SIZE, *both_clocks()[:2]))
            self._file: tuple[int, int] | None = identity(descriptor)
            self._whole: Any = compiled and compiled.map_shared(descriptor, HEADER.size + LIMIT)
            self._reserve(descriptor)
        finally:
            os.close(descriptor)

    def tell(self, row: dict[str, Any]) -> None:
        """Append a line to the side table. Raises OSError."""
        append_line(self.path + ".jsonl", row)

    def name(self, key: Any, name: str, file: str | None = None, line: int | None = None) -> int:
        """The number that stands for a name, told to the side table the first time. Raises OSError."""
        number = self._names.get(key)
        if number is None:
            number = self._names[key] = len(self._names) + 1
            self.tell({"kind": "name", "id": number, "name": name, "file": file, "line": line})
            if self.sources is not None:
                self.sources.keep_users(file, line)
        return number

    def label(self, name: str, place: tuple[str, int], limit: int) -> int:
        """As `name`, for words that a program may make up as it goes: beyond `limit` names all are one."""
        number = self._names.get((name, place))
        if number is None and len(self._names) >= limit:
            return self.name("", OTHER_LABELS)
        return number or self.name((name, place), name, *place)

    def write(
        self, stage: int, start: int, wall: int, cpu: int, batch: int, iterator: int, epoch: int,
        weight: int = 1, sample: int = -1, name: int = 0, count: int = 0, flags: int = 0,
    ) -> None:  # fmt: skip
        """One span: times in ns, `cpu` -1 where it was not read; `weight` spans like it happened. Never raises."""
        self._end = offset = HEADER.size + self._take() * _SIZE
        try:
            _pack(self._space, offset, start, wall, cpu, sample, batch, name, count, weight, iterator, epoch, flags,
                  stage)  # fmt: skip
        except own_errors():
            fields = (start, wall, cpu, sample, batch, name, count, min(weight, _MOST), iterator & _MOST,
                      epoch & _MOST, flags, stage)  # fmt: skip
            self._write_again(offset, fields)

    def thinning(self) -> int:
        """How many batches one recorded batch is to stand for, that the file may last: 1, 4, 16, …"""
        return int(4 ** (self._end * _EIGHTHS // self._limit))

    def abandon(self) -> None:
        """In a forked child: the file is the parent's."""
        self._space = self._whole = b""
        self._pid, self._file = -1, None

    def _write_again(self, offset: int, fields: tuple[int, ...]) -> None:
        if self._pid != os.getpid() or self._file is None:  # before the lock, which a fork may have left locked
            self.lost += 1
            return
        try:
            with self._lock:
                while offset + _SIZE > self._capacity:
                    if self._capacity >= self._limit:
                        self.lost += 1
                        return
                    self._grow()
            if compiled is not None:
                _pack(self._space, offset, *fields)
            else:
                self._store(offset, SPAN.struct.pack(*fields))
        except own_errors() as error:
            self.lost += 1
            self._file = None  # the disk is full, or the file is not there: what was recorded stays
            run_dir = os.path.dirname(os.path.dirname(self.path))
            leave_note(run_dir, f"further spans of the loading in process {self._pid}", error)

    def _grow(self) -> None:
        descriptor = self._opened()
        try:
            self._reserve(descriptor)
        finally:
            os.close(descriptor)

    def _reserve(self, descriptor: int) -> None:
        """Twice the room: a store into memory whose block the disk has not kills the job."""
        more = max(_FIRST, self._capacity - HEADER.size)
        os.posix_fallocate(descriptor, self._capacity, more)
        self._capacity += more
        if compiled is not None:
            self._space = self._whole[: self._capacity]
        self.tell({"kind": "clock", **clock_reading()})

    def _store(self, offset: int, record: bytes) -> None:
        """Without memory of the file, at a higher cost, which is measured like any."""
        descriptor = self._opened()
        try:
            os.pwrite(descriptor, record, offset)
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        """A descriptor of the file. None stays open: a job that closes all it knows would get its number for a file of
        its own. Raises OSError, also where another file has taken its place."""
        return reopened(self.path + ".bin", self._file)


_SIZE, _pack = SPAN.struct.size, SPAN.struct.pack_into
