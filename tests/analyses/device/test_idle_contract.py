"""What must not change idle time, launches and copies: numbers of ranks, the clock's zero, order of events, streams."""

from collections.abc import Callable

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from stepscope.analyses.device.copies import copies
from stepscope.analyses.device.copy_bandwidth import copy_bandwidth
from stepscope.analyses.device.gpu_counters import gpu_counters
from stepscope.analyses.device.idle import idle
from stepscope.analyses.device.idle_gaps import idle_gaps
from stepscope.analyses.device.kernel_sequences import kernel_sequences
from stepscope.analyses.device.launches import launches
from stepscope.analyses.device.queue_length import queue_length
from stepscope.analyses.device.queue_summary import queue_summary
from stepscope.analyses.device.stream_idle import stream_idle
from stepscope.analyses.operators.operator_delays import operator_delays
from stepscope.core.run import Analysis, Run
from stepscope.core.synth import Synth

MINE = {
    "copies": copies, "copy_bandwidth": copy_bandwidth, "gpu_counters": gpu_counters, "idle": idle,
    "idle_gaps": idle_gaps, "kernel_sequences": kernel_sequences, "launches": launches,
    "operator_delays": operator_delays, "queue_length": queue_length,
    "queue_summary": queue_summary, "stream_idle": stream_idle,
}  # fmt: skip
each = pytest.mark.parametrize("analysis", MINE.values(), ids=MINE)


@pytest.fixture(scope="module")
def run() -> Run:
    """Two ranks with two streams, copies, gaps of several causes, and ids that are the same on both ranks."""
    synth = Synth()
    for rank in (0, 1):
        _rank(synth, rank)
    return synth.run()


def _rank(synth: Synth, rank: int) -> None:
    for step in range(3):
        t, c = 100 * step + rank, 10 * step
        synth.host(f"ProfilerStep#{step}", "annotation", t, t + 100, rank=rank)
        synth.host("train.py(7): main", "python", t + 1, t + 99, rank=rank)
        synth.host("enumerate(DataLoader)#_Iter.__next__", "annotation", t + 2, t + 20, rank=rank)
        synth.host("aten::linear", "operator", t + 30, t + 40, rank=rank)
        for place, stream in enumerate(("7", "7", "8")):
            call, number = t + 31 + 2 * place, c + place + 1
            synth.host("cudaLaunchKernel", "runtime", call, call + 1, correlation=number, rank=rank)
            synth.kernel(
                t + 40 + 12 * place, t + 50 + 12 * place, f"gemm{place}", correlation=number, stream=stream,
                blocks_per_sm=0.5, occupancy=0.5, rank=rank,
            )  # fmt: skip
        synth.host("cudaMemcpyAsync", "runtime", t + 80, t + 81, correlation=c + 9, rank=rank)
        synth.kernel(
            t + 82, t + 84, "Memcpy DtoH (Device -> Pinned)", kind="memcpy", correlation=c + 9, bytes=4000, rank=rank
        )


def changed(run: Run, change: Callable[[str], pl.Expr | None]) -> Run:
    """The run with some columns of all tables changed."""
    return Run(
        {
            name: frame.with_columns(new for column in frame.columns if (new := change(column)) is not None)
            for name, frame in run.tables.items()
        }
    )


@each
def test_the_run_holds_what_each_analysis_needs(analysis: Analysis, run: Run) -> None:
    assert set(analysis(run)["rank"]) == {0, 1}
    assert analysis.scope == "rank"


@each
def test_ranks_may_have_other_numbers(analysis: Analysis, run: Run) -> None:
    renamed = changed(run, lambda name: pl.col(name) + 40 if name == "rank" else None)
    assert_frame_equal(analysis(renamed), analysis(run).with_columns(pl.col("rank") + 40))


@each
def test_the_clock_may_have_another_zero(analysis: Analysis, run: Run) -> None:
    later = 1_700_000_000_000_000_001
    times = ("start", "end", "time")
    expected = analysis(run)
    moments = [name for name in expected.columns if name in times]
    moved = changed(run, lambda name: pl.col(name) + later if name in times else None)
    assert_frame_equal(analysis(moved), expected.with_columns(pl.col(moments) + later))


@each
def test_events_may_come_in_any_order(analysis: Analysis, run: Run) -> None:
    tables = {name: frame.sample(fraction=1, shuffle=True, seed=7) for name, frame in run.tables.items()}
    assert_frame_equal(analysis(Run(tables)), analysis(run))


@each
def test_streams_may_have_other_names(analysis: Analysis, run: Run) -> None:
    renamed = changed(run, lambda name: pl.format("s{}", name) if name == "stream" else None)
    expected = analysis(run)
    if "stream" in expected.columns and expected["stream"].dtype == pl.String:
        expected = expected.with_columns(pl.format("s{}", "stream").alias("stream"))
    assert_frame_equal(analysis(renamed), expected)
