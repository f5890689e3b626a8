"""Which batches of an iterator are recorded, and what their samples and the calls in them write."""

from __future__ import annotations

import sys
import time

from ..guards import own_errors
from .overhead_budget import Slowdown
from .spans import SAMPLE

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .spans import SpanFile

__all__ = ["BATCH_COST", "CALL_COST", "LONGEST", "OWN_NS", "BatchRecorder", "cpu_ns", "process_ns"]

BATCH_COST, CALL_COST = 8.0, 0.15
"""CPU time of all spans of a batch, and of taking the times of a sample or of a call in it, in times of the part that
is measured each time.

What recording costs depends on the job: 5 µs a batch where it runs again and again, many times that where caches are
cold, because samples are long or other processes take turns. So that part is timed, and the rest goes with it.
"""

OWN_NS = 3_000
"""CPU time of the measured part, until it has been measured; it is never taken for less."""

PENDING_LIMIT = 4096
"""Times of samples and calls that are kept until the end of their fetch: 0.5 MB."""

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


class BatchRecorder:
    """One iterator in one process: which batch it is at, and what of it is recorded.

    `batch` is its number in the epoch, -1 for none; `live` is true while it is recorded. `ended`: when its fetch did, 0
    unless recorded; `stood_for` is the weight it had. `sizes`: of samples before and after a transform, and their
    bytes, that have not been told yet. `pending`: times of samples and of calls in them that have not been written yet:
    stage, start, end, CPU time, number, name, count; `written`: how many of the batch have been. `detail_cost`: CPU
    time that went into having them taken. `passing()`: batches that went by since one was looked at last. `budget` pays
    for recording batches, `detail_budget` for their samples. `times_modules`: are calls of torch's modules timed?
    `watch_cost`: CPU time for the events of calls that were watched; `slowed`: they were, by the way that slows all of
    the batch down, `slowdown`: by how much. `loader`: its number in
    facts.jsonl, as far as it is known. `core_wait`: how long its thread had waited for a core before the fetch,
    `process`: the CPU time of its process then.
    """

    times_modules = False

    __slots__ = (
        "batch",
        "begin",
        "begin_cpu",
        "budget",
        "collate_cpu",
        "collate_start",
        "core_wait",
        "detail_budget",
        "detail_cost",
        "detail_due",
        "detail_last",
        "due",
        "ended",
        "epoch",
        "iterator",
        "last",
        "live",
        "loader",
        "measured_sizes",
        "names",
        "own",
        "passing",
        "pending",
        "process",
        "seen",
        "sizes",
        "slowdown",
        "slowed",
        "spans",
        "stood_for",
        "stride",
        "watch_cost",
        "written",
    )  # fmt: skip

    def __init__(self, spans: SpanFile, iterator: int) -> None:
        self.spans, self.iterator = spans, iterator
        self.loader: int | None = None
        self.budget, self.detail_budget = spans.budget, spans.detail_budget
        self.epoch = self.seen = self.ended = self.detail_cost = self.process = self.own = self.written = 0
        self.due, self.detail_due = self.budget.wait() - 1, self.detail_budget.wait() - 1
        self.stride = self.stood_for = 1
        self.batch = self.last = self.detail_last = -1
        self.core_wait = self.watch_cost = 0
        self.slowed, self.slowdown = False, Slowdown()
        self.live = False
        self.begin = self.begin_cpu = self.collate_start = self.collate_cpu = 0
        self.names: dict[int, int] = {}
        self.measured_sizes: dict[int, int] = {}  # calls by the number of their name
        self.sizes: list[tuple[int, int, int, int]] = []
        self.passing: Callable[[], int] = int
        self.pending: list[tuple[int, int, int, int, int, int, int]] = []

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
        self.own = max(OWN_NS, self.own + (own - self.own) // (_SMOOTH if self.own else 1))

    def next_due(self, cost: float, used: int) -> None:
        """Settle when the next batch is recorded: this one took `used` ns, recording one costs `cost` times `own`."""
        self.budget.pay(cost * max(OWN_NS, self.own), used, self.seen - 1 - max(self.last, -1))
        self.last = self.seen - 1
        self.stride = min(max(self.budget.wait(), self.spans.thinning()), LONGEST)
        self.due = self.last + self.stride
        self.live = False

    def next_detail_due(self, used: int) -> None:
        """Settle when samples are recorded next: those of this batch, which took `used` ns, have been."""
        begin = cpu_ns()
        self.flush()
        cost = self.detail_cost + CALL_COST * max(OWN_NS, self.own) * self.written + cpu_ns() - begin
        cost += max(self.watch_cost, self.slowdown.share() * used if self.slowed else 0)
        self.detail_budget.pay(cost, used, self.seen - 1 - max(self.detail_last, -1))
        self.detail_last = self.seen - 1
        wait = max(self.detail_budget.wait(), 2 if self.slowed and self.spans.share < 1 else 1)
        self.detail_due = self.detail_last + min(wait, LONGEST)  # the next is not watched, and shows the difference

    def detail_weight(self) -> int:
        """How many batches the one stands for whose samples are recorded."""
        return min(self.seen - 1 - self.detail_last, LONGEST)

    def sample(self, index: Any, name: int, count: int = 1) -> None:
        """A sample has just been made; the one before ended when it began. Never raises: the job would lose it."""
        try:
            end, cpu = _now(), cpu_ns()
            number = index if type(index) is int and -1 < index < 1 << 63 else -1
            self.called(SAMPLE, self.begin, end, cpu - self.begin_cpu, number, name, count)
            self.begin, self.begin_cpu = end, cpu
        except own_errors():
            self.detail_due = sys.maxsize  # batches are timed as a whole

    def called(self, stage: int, start: int, end: int, cpu: int, number: int, name: int, count: int = 0) -> None:
        """A sample is done, or a call inside one; `number` of the sample, or of what was read.

        Between two calls nothing of ours is in the caches, and writing a span would take several times what it takes
        after the fetch, one after the other.
        """
        self.pending.append((stage, start, end, cpu, number, name, count))
        if len(self.pending) >= PENDING_LIMIT:
            self.flush()

    def straighten(self, begin: int, wall: int, used: int) -> None:
        """Give what is pending the times that it takes in batches whose calls are not watched. The fetch began at
        `begin`, and took `wall` ns, `used` of them on a core: what waited waits as long as before."""
        more = self.slowdown.sure_share() if self.slowed else 0
        if more and wall > 0:
            left, on_core = 1 - more * min(used, wall) / wall, 1 - more
            self.pending = [
                (stage, begin + int((start - begin) * left), begin + int((end - begin) * left),
                 int(cpu * on_core) if cpu > 0 else cpu, number, name, count)
                for stage, start, end, cpu, number, name, count in self.pending
            ]  # fmt: skip

    def flush(self) -> None:
        """Write what is pending. Never raises."""
        write, pending = self.spans.write, self.pending
        at = (self.batch, self.iterator, self.epoch, self.detail_weight())
        for stage, start, end, cpu, number, name, count in pending:
            write(stage, start, end - start, cpu, *at, number, name, count)
        self.written += len(pending)
        pending.clear()

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
