"""Gaps of a device: their causes to the nanosecond, and what the host did meanwhile."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.device.idle import idle
from stepscope.analyses.device.idle_gaps import idle_gaps
from stepscope.analyses.device.lib.device_gaps import CAUSES
from stepscope.analyses.device.stream_idle import stream_idle
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.synth import MS, Synth

from ...thoroughness import tries

NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def launched(synth: Synth, call: float, start: float, end: float, *, number: int, **columns: object) -> Synth:
    """A kernel and its launch, which takes 1 ms from `call` on."""
    synth.host("cudaLaunchKernel", "runtime", call, call + 1, correlation=number)
    return synth.kernel(start, end, correlation=number, **columns)  # type: ignore[arg-type]


def causes(run: Run) -> list[dict[str, float]]:
    """For each gap in order of time the causes that occur, in ms."""
    rows = idle_gaps(run).sort("start").iter_rows(named=True)
    return [{cause: row[cause] / MS for cause in CAUSES if row[cause]} for row in rows]


def test_a_gap_is_divided_by_what_the_host_did_before_it_launched() -> None:
    synth = launched(Synth(), 0, 1, 10, number=1)
    synth.host("cudaStreamSynchronize", "runtime", 2, 12).host(NEXT, "annotation", 13, 43)
    launched(synth, 50, 51.05, 60, number=2)
    assert causes(synth.run()) == [{"data_wait": 30, "sync": 2, "host": 8, "launch": 1, "latency": 0.05}]
    assert idle_gaps(synth.run()).select("duration", "class").rows() == [(41.05 * MS, "data_wait")]


def test_transfers_of_gloo_are_collectives_on_whichever_thread() -> None:
    synth = launched(Synth(), 0, 1, 10, number=1).host("gloo:all_reduce", "annotation", 12, 40, thread="9")
    launched(synth, 50, 51, 60, number=2)
    assert causes(synth.run()) == [{"collective": 28, "host": 12, "launch": 1}]


def test_only_the_launching_thread_is_blocked() -> None:
    synth = launched(Synth(), 0, 1, 10, number=1).host("cudaEventSynchronize", "runtime", 5, 48, thread="9")
    launched(synth, 50, 51, 60, number=2)
    assert causes(synth.run()) == [{"host": 40, "launch": 1}]


def test_work_that_was_launched_before_the_gap_is_late_by_itself() -> None:
    synth = launched(Synth(), 0, 1, 10, number=1)
    launched(synth, 2, 10.02, 20, number=2)
    launched(synth, 3, 20.03, 30, number=3, stream="8")
    launched(synth, 5, 35, 40, number=4, stream="8")
    assert causes(synth.run()) == [{"latency": 0.02}, {"stream": 0.03}, {"unexplained": 5}]


def test_of_work_that_starts_at_once_the_first_to_be_launched_ends_the_gap() -> None:
    synth = launched(Synth(), 0, 1, 10, number=1)
    launched(synth, 18, 20, 30, number=2, name="later", stream="8")
    launched(synth, 15, 20, 30, number=3, name="first")
    (row,) = idle_gaps(synth.run()).iter_rows(named=True)
    assert (row["next"], row["host"], row["launch"], row["unexplained"]) == ("first", 5 * MS, 1 * MS, 4 * MS)


def test_without_its_launch_a_gap_has_no_known_cause() -> None:
    synth = launched(Synth(), 0, 1, 10, number=1).kernel(20, 30).host("aten::mm", "operator", 0, 40)
    assert causes(synth.run()) == [{"unknown": 10}]
    assert causes(Synth().kernel(0, 1).kernel(4, 5).run()) == [{"unknown": 3}]
    assert idle_gaps(synth.run())["activity"].to_list() == [None]


def test_gaps_are_those_of_all_streams_and_of_each_device() -> None:
    synth = Synth().kernel(0, 10).kernel(5, 20, stream="8").kernel(30, 40).kernel(0, 50, device=1)
    synth.kernel(25, 25, stream="9")  # without duration: no work
    assert idle_gaps(synth.run()).select("device", "start", "duration").rows() == [(0, 20 * MS, 10 * MS)]
    assert idle(synth.run()).select("device", "class", "gaps", "total", "share", "longest").rows() == [
        (0, "unknown", 1, 10 * MS, 0.25, 10 * MS)
    ]


def test_work_whose_duration_was_rounded_to_nothing_ends_the_last_gap() -> None:
    synth = launched(Synth(), 0, 1, 1, number=1)
    launched(synth, 4, 5, 5, number=2)
    assert causes(synth.run()) == [{"host": 3, "launch": 1}]


def test_time_between_traced_windows_is_no_gap() -> None:
    synth = Synth()
    for step in (3, 30):
        at = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", at, at + 100)
        launched(synth, at + 9, at + 10, at + 60, number=step)
    assert causes(synth.run()) == [{"unknown": 40}, {"host": 9, "launch": 1}]
    assert idle_gaps(synth.run()).sort("start")["step"].to_list() == [3, 30]


def test_what_the_host_did_is_the_innermost_that_covers_more_than_half() -> None:
    synth = launched(Synth(), 0, 1, 10, number=1).host("ProfilerStep#7", "annotation", 0, 100)
    synth.host("Optimizer.step#Adam.step", "annotation", 11, 60)
    for at in (20, 30, 40):
        synth.host("aten::mul", "operator", at, at + 5)
    launched(synth, 50, 51, 60, number=2)
    launched(synth, 80, 81, 90, number=3)
    found = idle_gaps(synth.run()).sort("start").select("step", "class", "activity", "operator")
    assert found.rows() == [(7, "host", "Optimizer.step#Adam.step", "Optimizer.step#Adam.step"),
                            (7, "host", None, "ProfilerStep#7")]  # fmt: skip


def test_frames_name_the_line_and_calls_the_activity() -> None:
    synth = launched(Synth(), 0, 1, 10, number=1)
    synth.host("train.py(12): main", "python", 0, 100).host("model.py(40): forward", "python", 8, 70)
    synth.host("torch/nn/modules/module.py(1): _call_impl", "python", 9, 69)
    synth.host("nn.Module: Encoder_0", "python", 9, 69, module_id=0)
    synth.host("<built-in function sleep>", "python", 12, 49)
    launched(synth, 50, 51, 60, number=2)
    (row,) = idle_gaps(synth.run()).iter_rows(named=True)
    assert [row[name] for name in ("activity", "module", "file", "line", "function")] == [
        "<built-in function sleep>", "Encoder_0", "model.py", 40, "forward"
    ]  # fmt: skip


def test_recorded_call_stacks_name_the_line_too() -> None:
    synth = launched(Synth(), 0, 1, 10, number=1)
    stack = "torch/nn/functional.py(9): linear;model.py(40): forward;train.py(12): main"
    synth.host("aten::linear", "operator", 9, 70, call_stack=stack)
    launched(synth, 50, 51, 60, number=2)
    (row,) = idle_gaps(synth.run()).iter_rows(named=True)
    assert [row[name] for name in ("activity", "file", "line", "function")] == [
        "aten::linear", "model.py", 40, "forward"
    ]  # fmt: skip


def test_causes_are_summed_up_with_what_the_host_did_most() -> None:
    synth = launched(Synth(), 0, 1, 10, number=1)
    for step, name in enumerate(("aten::sort", "aten::nonzero", "aten::nonzero")):
        at = 100 * (step + 1)
        synth.host(name, "operator", at - 85, at + 1 + step)
        launched(synth, at, at + 1, at + 10, number=step + 2)
    first = idle(synth.run()).row(0, named=True)
    assert first == {
        "rank": 0, "device": 0, "class": "host", "gaps": 3, "total": 270 * MS, "share": 270 / 309, "longest": 90 * MS,
        "activity": "aten::nonzero", "activity_total": 180 * MS, "file": None, "line": None, "function": None,
        "line_total": None,
    }  # fmt: skip


def test_a_launch_is_the_call_itself_however_small_a_part_of_the_gap_it_is() -> None:
    synth = launched(Synth(), 0, 1, 10, number=1).host("cudaFree", "runtime", 10, 40)
    synth.host("cudaLaunchKernelExC", "runtime", 40, 45, correlation=2).kernel(45, 50, correlation=2)
    rows = idle(synth.run()).select("class", "activity", "activity_total").rows()
    assert rows == [("host", "cudaFree", 30 * MS), ("launch", "cudaLaunchKernelExC", 5 * MS)]


def test_a_device_that_never_idles_has_no_gaps() -> None:
    run = Synth().kernel(0, 10).kernel(10, 20).run()
    assert idle_gaps(run).is_empty()
    assert idle(run).is_empty()


@pytest.mark.parametrize("analysis", [idle_gaps, idle, stream_idle])
def test_without_device_work_there_is_nothing_to_idle(analysis: Analysis) -> None:
    with pytest.raises(MissingData, match="no device work"):
        analysis(Synth().host("aten::mm", "operator", 0, 5).run())


def test_idle_time_of_streams() -> None:
    synth = launched(Synth(), 0, 1, 10, number=1)
    launched(synth, 2, 10.02, 20, number=2)  # 20 µs, launched before
    launched(synth, 3, 25, 30, number=3)  # 5 ms, launched before; the device works until 22
    launched(synth, 32, 40, 50, number=4)  # launched 2 ms into the gap
    synth.kernel(20, 22, stream="8").kernel(60, 61)
    rows = {row.pop("stream"): row for row in stream_idle(synth.run()).iter_rows(named=True)}
    assert rows["7"] == {
        "rank": 0, "device": 0, "work": 5, "gaps": 4, "span": 60 * MS, "idle": 25.02 * MS,
        "host_wait": 10 * MS, "kernel_wait": 0.02 * MS, "other": 15 * MS,
        "before_launch": 2 * MS, "in_launch": 1 * MS, "other_streams": 2 * MS, "device_idle": 10.02 * MS,
        "unknown": 10 * MS,
    }  # fmt: skip
    assert rows["8"]["gaps"] == 0


def times() -> st.SearchStrategy[list[tuple[int, int, int, int]]]:
    """Launch, delay, duration and stream of some kernels, in µs."""
    return st.lists(
        st.tuples(st.integers(0, 400), st.integers(-5, 150), st.integers(0, 60), st.integers(7, 9)),
        min_size=1,
        max_size=12,
    )


def random_run(kernels: list[tuple[int, int, int, int]]) -> Run:
    synth = Synth().host("aten::mm", "operator", 0.05, 0.2).host("cudaDeviceSynchronize", "runtime", 0.1, 0.15)
    for number, (at, delay, length, stream) in enumerate(kernels, start=1):
        synth.host(
            "cudaLaunchKernel", "runtime", at / 1000, (at + 6) / 1000, correlation=number, thread=str(number % 2)
        )
        start = max(at + 6 + delay, 0) / 1000
        synth.kernel(start, start + length / 1000, correlation=number, stream=str(stream))
    return synth.run()


@pytest.mark.slow
@settings(max_examples=tries(25, 300), deadline=None)
@given(times())
def test_gaps_and_causes_are_partitions_and_do_not_depend_on_the_zero_of_the_clock(
    kernels: list[tuple[int, int, int, int]],
) -> None:
    run = random_run(kernels)
    gaps = idle_gaps(run)
    assert gaps["duration"].sum() == device_time(run)["idle"].sum() == idle(run)["total"].sum()
    assert (gaps.select(pl.sum_horizontal(CAUSES)).to_series() == gaps["duration"]).all()
    streams = stream_idle(run)
    assert (streams.select(pl.sum_horizontal("host_wait", "kernel_wait", "other")).to_series() == streams["idle"]).all()
    later = {name: frame.with_columns(pl.col(column) + 10**18 for column in ("start", "end") if column in frame.columns)
             for name, frame in run.tables.items()}  # fmt: skip
    assert_frame_equal(idle_gaps(Run(later)), gaps.with_columns(pl.col("start") + 10**18))
    assert_frame_equal(stream_idle(Run(later)), streams)
