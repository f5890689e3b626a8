"""Which batches of an iterator are recorded, and what their samples and the calls in them write."""

from __future__ import annotations

import time

from .spans import SAMPLE
from .subjects import file_number

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .spans import SpanFile

__all__ = ["BATCH_COST", "LONGEST", "OWN_NS", "SAMPLE_COST", "Lane", "cpu_ns", "process_ns", "stride"]

BATCH_COST, SAMPLE_COST = 8.0, 0.4
"""CPU time of all spans of a batch, and of that of a sample, in times of the part that is measured each time.

What recording costs depends on the job: 5 µs a batch where it runs again and again, many times that where caches are
cold, because samples are long or other processes take turns. So that part is timed, and the rest goes with it.
"""

OWN_NS = 3_000
"""CPU time of the measured part, until it has been measured; it is never taken for less."""

_SMOOTH = 4  # a measurement counts a fourth: one that was interrupted says little

SIZED = 8
"""Calls of a transform in a process whose samples are measured: enough for a mean of pictures of several sizes."""

LONGEST = 0xFFFF
"""The most batches that one stands for."""

_now = time.monotonic_ns
cpu_ns: Callable[[], int] = getattr(time, "thread_time_ns", lambda: -1)
"""CPU time of the calling thread in ns."""

process_ns: Callable[[], int] = time.process_time_ns
"""CPU time of all threads of this process in ns."""


class Lane:
    """One iterator in one process: which batch it is at, and what of it is recorded.

    `batch` is its number in the epoch, -1 for none; `live` is true while it is recorded. `ended`: when its fetch did,
    0 unless recorded; `stood_for` is the weight it had. `sizes`: of samples before and after a transform that have not
    been told yet. `times_modules`: may classes of torch's modules be changed for the time of a fetch? `thread`: the one
    whose calls are timed now, 0 for none. `loader`: its number in facts.jsonl, as far as it is known. `core_wait`: how
    long its thread had waited for a core before the fetch, `process`: the CPU time of its process then.
    """

    times_modules = False

    __slots__ = (
        "batch", "begin", "begin_cpu", "collate_cpu", "collate_start", "core_wait", "count", "detail_due",
        "detail_last", "due", "ended", "epoch", "extra", "iterator", "last", "live", "loader", "measured_sizes",
        "names", "own", "prepared", "process", "seen", "sizes", "spans", "stood_for", "stride", "thread",
    )  # fmt: skip

    def __init__(self, spans: SpanFile, iterator: int) -> None:
        self.spans, self.iterator = spans, iterator
        self.loader: int | None = None
        self.epoch = self.seen = self.due = self.detail_due = self.count = self.ended = self.extra = self.prepared = 0
        self.process = 0
        self.stride = self.stood_for = 1
        self.own = OWN_NS
        self.batch = self.last = self.detail_last = -1
        self.thread = self.core_wait = 0
        self.live = False
        self.begin = self.begin_cpu = self.collate_start = self.collate_cpu = 0
        self.names: dict[int, int] = {}
        self.measured_sizes: dict[int, int] = {}  # calls by the number of their name
        self.sizes: list[tuple[int, int, int]] = []

    def enter(self, batch: int) -> bool:
        """Another batch begins; is it recorded?"""
        self.batch = batch
        self.seen += 1
        self.live = self.seen > self.due
        return self.live

    def fetching(self) -> bool:
        """The fetch of a batch begins; is it recorded?"""
        return self.enter(self.batch + 1)

    def uncounted(self) -> int:
        """How many batches from now on the next one is that has to be looked at, 1 being the next."""
        return max(1, self.due - self.seen + 1)

    def passed(self, batches: int) -> None:
        """So many batches went by uncounted."""
        self.seen += batches
        self.batch += batches

    def weight(self) -> int:
        """How many batches this recorded one stands for."""
        return min(self.seen - 1 - self.last, LONGEST)

    def measured(self, own: int) -> None:
        """The measured part of recording took `own` ns this time."""
        self.own = max(OWN_NS, self.own + (own - self.own) // _SMOOTH)

    def next_due(self, cost: float, used: int) -> None:
        """Settle when the next batch is recorded: this one took `used` ns, recording one costs `cost` times `own`."""
        self.last = self.seen - 1
        self.stride = min(max(stride(cost * self.own, used, self.spans.share), self.spans.thinning()), LONGEST)
        self.due = self.last + self.stride
        self.live = False

    def sample(self, index: Any, name: int, count: int = 1) -> None:
        """A sample has just been made; the one before ended when it began."""
        end, cpu = _now(), cpu_ns()
        number = index if type(index) is int and -1 < index < 1 << 63 else -1
        self.count += count
        self.spans.write(
            SAMPLE, self.begin, end - self.begin, cpu - self.begin_cpu, self.batch, self.iterator, self.epoch,
            min(self.seen - 1 - self.detail_last, LONGEST), number, name, count,
        )  # fmt: skip
        self.begin, self.begin_cpu = end, cpu

    def called(self, stage: int, start: int, cpu: int, name: int, shortest: int, read: tuple[Any, ...] = ()) -> None:
        """A call inside a sample, which began at `start`, is over; `read` is what a reader was given. Never raises."""
        wall = _now() - start
        if wall >= shortest:
            used = cpu_ns() - cpu
            self.extra += 1
            self.spans.write(
                stage, start, wall, used, self.batch, self.iterator, self.epoch,
                min(self.seen - 1 - self.detail_last, LONGEST), file_number(read) if read else -1, name,
            )  # fmt: skip

    def wants_size(self, name: int) -> bool:
        """Is this one of the first calls of a transform?"""
        calls = self.measured_sizes[name] = self.measured_sizes.get(name, 0) + 1
        return calls <= SIZED

    def tell_sizes(self) -> None:
        """Write what was measured of samples. Raises OSError."""
        if self.sizes:
            sizes, self.sizes = self.sizes, []
            self.spans.tell({"kind": "sizes", "sizes": sizes})

    def name(self, thing: Any, name: str, place: tuple[str | None, int | None]) -> int:
        """A number in the side table for a thing that has none in `names`."""
        number = self.names[id(thing)] = self.spans.name((name, place), name, *place)
        return number


def stride(cost: float, used: int, share: float) -> int:
    """Every how many batches may be recorded, at a cost that may be a share of the `used` time of all, both in ns."""
    return 1 + int(cost / (share * max(1, used)))
