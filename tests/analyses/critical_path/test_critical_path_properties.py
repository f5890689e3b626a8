"""Critical paths of random programs, against running the program again with one activity shorter or longer.

The programs run on a simple machine: one main thread, a thread for backward, three streams, launches that take DELAY to
reach the device, and work that starts DELAY after what its stream waits for. Times are µs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyses.critical_path.critical_path import critical_path
from stepscope.core.run import Run
from stepscope.core.synth import Synth

from ...thoroughness import tries

pytestmark = pytest.mark.slow

US = 1000
DELAY = 5
PAUSE = 2  # of a thread between two activities
STREAMS = 3
BACKWARD = "autograd::engine::evaluate_function: MmBackward0"
Instruction = tuple[str, int, int, int]
"""operator, launch, synchronize or wait; length of the call; length of the kernel, or the stream waited for; stream."""

INSTRUCTIONS = st.tuples(
    st.sampled_from(["operator", "operator", "launch", "launch", "launch", "synchronize", "wait", "backward"]),
    st.integers(3, 40),
    st.integers(3, 60),
    st.integers(0, STREAMS - 1),
)


@dataclass(slots=True)
class Machine:
    """Runs a program; activity number `changed` takes `more` µs more than the program says."""

    changed: int = -1
    more: int = 0
    synth: Synth = field(default_factory=Synth)
    time: int = 0
    thread: str = "1"
    activity: int = 0
    correlation: int = 0
    ends: list[int] = field(default_factory=lambda: [0] * STREAMS)
    events: list[list[int]] = field(default_factory=lambda: [[] for _ in range(STREAMS)])

    def run(self, program: Sequence[Instruction]) -> Run:
        for what, length, more, stream in program:
            self.time += PAUSE
            getattr(self, what)(length, more, stream)
        self.synth.host("ProfilerStep#0", "annotation", 0, (self.time + PAUSE) / US, thread="1", index=-1)
        return self.synth.run()

    def takes(self, length: int) -> tuple[int, int]:
        """The number and the length of the next activity."""
        self.activity += 1
        return self.activity, length + (self.more if self.activity == self.changed else 0)

    def call(self, name: str, kind: str, length: int, *, until: int = 0) -> None:
        """A call that returns its length after it began, and not before so long after `until`."""
        number, length = self.takes(length)
        end = max(self.time, until) + length
        self.synth.host(
            name, kind, self.time / US, end / US, thread=self.thread, index=number, correlation=self.correlation
        )
        self.time = end

    def operator(self, length: int, more: int, stream: int) -> None:
        self.call(BACKWARD if self.thread == "2" else "aten::mm", "operator", length)

    def launch(self, length: int, more: int, stream: int) -> None:
        self.correlation += 1
        self.call("cudaLaunchKernel", "runtime", length)
        number, kernel = self.takes(more)
        waits = [self.time, *self.events[stream], *([self.ends[stream]] if self.ends[stream] else [])]
        start = max(waits) + DELAY
        self.ends[stream] = start + kernel
        self.events[stream] = []
        self.synth.kernel(
            start / US, (start + kernel) / US, stream=str(stream), correlation=self.correlation, index=number
        )

    def synchronize(self, length: int, more: int, stream: int) -> None:
        self.correlation += 1
        self.call("cudaDeviceSynchronize", "runtime", length, until=max(self.ends))

    def wait(self, length: int, more: int, stream: int) -> None:
        """Stream `stream` waits for all that was launched so far on another."""
        other = more % STREAMS
        self.correlation += 1
        record = self.correlation
        self.call("cudaEventRecord", "runtime", length)
        self.correlation += 1
        self.call("cudaStreamWaitEvent", "runtime", length)
        if other != stream and self.ends[other]:
            self.events[stream].append(self.ends[other])
        self.synth.kernel(
            self.time / US, self.time / US, "Stream Wait Event", kind="sync", stream=str(stream), index=-2,
            correlation=self.correlation, waits_for_record=record, waits_for_stream=other,
        )  # fmt: skip

    def backward(self, length: int, more: int, stream: int) -> None:
        """Two operators and a kernel on autograd's thread, for which the main thread waits."""
        self.thread = "2"
        self.operator(length, more, stream)
        self.time += PAUSE
        self.launch(length, more, stream)
        self.time += PAUSE
        self.operator(more, length, stream)
        self.thread = "1"
        self.time += PAUSE
        self.operator(length, more, stream)


def length_of(run: Run) -> int:
    path = critical_path(run)
    return int(path.select(pl.col("end").max() - pl.col("start").min()).item()) // US


@settings(max_examples=tries(8, 100), deadline=None)
@given(st.lists(INSTRUCTIONS, min_size=1, max_size=6), st.integers(1, 3))
def test_the_path_is_what_decides(program: list[Instruction], change: int) -> None:
    machine = Machine()
    run = machine.run(program)
    whole = length_of(run)
    on_path = set(critical_path(run).filter(pl.col("class").is_in(["launch latency", "kernel gap"]).not_())["index"])
    assert "unknown" not in set(critical_path(run)["class"])
    for activity in range(1, machine.activity + 1):
        longer = length_of(Machine(activity, change).run(program))
        shorter = length_of(Machine(activity, -change).run(program))
        if activity in on_path:
            assert longer == whole + change
            assert whole - change <= shorter <= whole
        else:
            assert shorter == whole
            assert whole <= longer <= whole + change


@settings(max_examples=25, deadline=None)
@given(st.lists(INSTRUCTIONS, min_size=1, max_size=12), st.integers(0, 10**15), st.randoms(use_true_random=False))
def test_neither_the_clock_nor_the_order_nor_names_of_streams_matter(
    program: list[Instruction], later: int, random: object
) -> None:
    run = Machine().run(program)
    renamed = pl.col("stream").replace({"0": "27", "1": "7", "2": "120"})
    events = {str(old): new for old, new in enumerate((27, 7, 120))}
    tables = {}
    for name, table in run.tables.items():
        moved = [pl.col(column) + later for column in ("start", "end") if column in table.columns]
        table = table.with_columns(moved).sample(fraction=1, shuffle=True, seed=random.randrange(2**32))  # type: ignore[attr-defined]
        if name == "device":
            waits = pl.col("waits_for_stream").cast(pl.String).replace(events).cast(pl.Int64)
            table = table.with_columns(renamed, waits)
        tables[name] = table
    found = critical_path(Run(tables)).with_columns(pl.col("start") - later, pl.col("end") - later)
    columns = ("start", "end", "class", "name", "operator")
    assert found.select(columns).rows() == critical_path(run).select(columns).rows()
