"""The critical path of small runs, segment by segment, and of real traces against what the traces say."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from stepscope.analyses.critical_path.critical_path import critical_path
from stepscope.analyses.critical_path.critical_path_names import critical_path_names
from stepscope.analyses.critical_path.critical_path_summary import critical_path_summary
from stepscope.analyses.critical_path.lib.path_work import LAUNCH, path_work
from stepscope.analyses.lib.host_order import host_order
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.storage import open_run

US = 1000
BACKWARD = "autograd::engine::evaluate_function: MmBackward0"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
Row = tuple[float, float, str, str | None]


def path_of(run: Run) -> list[Row]:
    """start and end in ms, class and name of each segment."""
    rows = critical_path(run).select(pl.col("start") / MS, pl.col("end") / MS, "class", "name").rows()
    return [(round(start, 6), round(end, 6), kind, name) for start, end, kind, name in rows]


def launch(synth: Synth, start: float, end: float, correlation: int, **columns: object) -> None:
    synth.host("cudaLaunchKernel", "runtime", start, end, correlation=correlation, **columns)  # type: ignore[arg-type]


def step(synth: Synth, end: float) -> Synth:
    return synth.host("ProfilerStep#3", "annotation", 0, end)


def test_a_host_that_waits_for_a_kernel() -> None:
    synth = step(Synth(), 10).host("aten::mm", "operator", 1, 3)
    launch(synth, 2, 2.5, 1)
    synth.kernel(2.52, 7, "gemm", correlation=1)
    synth.host("aten::item", "operator", 4, 8).host("cudaStreamSynchronize", "runtime", 5, 7.5)
    assert path_of(synth.run()) == [
        (0, 1, "host", "ProfilerStep#3"),
        (1, 2, "operator", "aten::mm"),
        (2, 2.5, "runtime", "cudaLaunchKernel"),
        (2.5, 2.52, "launch latency", "gemm"),
        (2.52, 7, "compute", "gemm"),
        (7, 7.5, "synchronization", "cudaStreamSynchronize"),
        (7.5, 8, "operator", "aten::item"),
        (8, 10, "host", "ProfilerStep#3"),
    ]  # fmt: skip


def test_a_wait_that_comes_late_costs_nothing() -> None:
    """The kernel has ended before the host asks, so it is not on the path."""
    synth = step(Synth(), 10)
    launch(synth, 1, 1.5, 1)
    synth.kernel(1.6, 3, correlation=1).host("cudaDeviceSynchronize", "runtime", 5, 5.1)
    assert path_of(synth.run()) == [
        (0, 1, "host", "ProfilerStep#3"),
        (1, 1.5, "runtime", "cudaLaunchKernel"),
        (1.5, 5, "host", "ProfilerStep#3"),
        (5, 5.1, "synchronization", "cudaDeviceSynchronize"),
        (5.1, 10, "host", "ProfilerStep#3"),
    ]


def test_a_device_that_lags_ends_the_step_and_works_through_its_stream() -> None:
    synth = step(Synth(), 4)
    for correlation, at in ((1, 1), (2, 2)):
        launch(synth, at, at + 0.1, correlation)
    synth.kernel(1.11, 5, "first", correlation=1).kernel(5.002, 9, "second", correlation=2)
    assert path_of(synth.run()) == [
        (0, 1, "host", "ProfilerStep#3"),
        (1, 1.1, "runtime", "cudaLaunchKernel"),
        (1.1, 1.11, "launch latency", "first"),
        (1.11, 5, "compute", "first"),
        (5, 5.002, "kernel gap", "second"),
        (5.002, 9, "compute", "second"),
    ]


def test_a_copy_that_blocks_waits_for_its_stream() -> None:
    synth = step(Synth(), 10)
    launch(synth, 1, 1.1, 1)
    synth.kernel(1.11, 6, correlation=1).host("cudaMemcpyAsync", "runtime", 2, 7, correlation=2)
    synth.kernel(6.01, 6.5, "Memcpy DtoH (Device -> Pageable)", kind="memcpy", correlation=2)
    assert path_of(synth.run())[2:] == [
        (1.1, 1.11, "launch latency", "gemm"),
        (1.11, 6, "compute", "gemm"),
        (6, 6.01, "kernel gap", "Memcpy DtoH (Device -> Pageable)"),
        (6.01, 6.5, "copy", "Memcpy DtoH (Device -> Pageable)"),
        (6.5, 7, "runtime", "cudaMemcpyAsync"),
        (7, 10, "host", "ProfilerStep#3"),
    ]


def test_a_stream_that_waits_for_another_by_what_the_host_called() -> None:
    """The collective was launched long before the gradient was there; the host made its stream wait for an event."""
    synth = step(Synth(), 4)
    launch(synth, 0.1, 0.2, 1)
    launch(synth, 1, 1.1, 2)
    synth.host("cudaStreamWaitEvent", "runtime", 1.2, 1.21)
    launch(synth, 1.3, 1.4, 3)
    synth.kernel(0.21, 0.3, "ncclDevKernel_Broadcast", stream="20", correlation=1)
    synth.kernel(1.11, 1.44, "gemm", correlation=2)
    synth.kernel(1.45, 6, "ncclDevKernel_AllReduce", stream="20", correlation=3)
    assert path_of(synth.run())[-4:] == [
        (1.1, 1.11, "launch latency", "gemm"),
        (1.11, 1.44, "compute", "gemm"),
        (1.44, 1.45, "kernel gap", "ncclDevKernel_AllReduce"),
        (1.45, 6, "communication", "ncclDevKernel_AllReduce"),
    ]


def test_a_stream_that_waits_for_an_event_that_the_trace_names() -> None:
    """Two streams end before the start of `late`; the trace names the earlier one."""
    synth = step(Synth(), 4)
    for correlation, at in ((1, 0.1), (2, 0.3), (3, 1)):
        launch(synth, at, at + 0.05, correlation)
    synth.host("cudaEventRecord", "runtime", 0.2, 0.21, correlation=10)
    synth.host("cudaStreamWaitEvent", "runtime", 0.8, 0.81, correlation=11)
    synth.kernel(0.16, 3, "named", stream="7", correlation=1).kernel(0.36, 3.01, "other", stream="8", correlation=2)
    synth.kernel(3.05, 5, "late", stream="9", correlation=3)
    synth.kernel(
        0.8, 0.81, "Stream Wait Event", kind="sync", stream="9", correlation=11, waits_for_record=10, waits_for_stream=7
    )
    assert [row[3] for row in path_of(synth.run()) if row[2] == "compute"] == ["named", "late"]


def test_backward_runs_on_a_thread_of_its_own() -> None:
    synth = step(Synth(), 10).host("aten::mm", "operator", 1, 2)
    synth.host(BACKWARD, "operator", 3, 5, thread="2").host(BACKWARD, "operator", 5.1, 7, thread="2")
    synth.host("aten::_foreach_add_", "operator", 8, 9)
    assert path_of(synth.run()) == [
        (0, 1, "host", "ProfilerStep#3"),
        (1, 2, "operator", "aten::mm"),
        (2, 3, "host", "ProfilerStep#3"),
        (3, 5, "operator", BACKWARD),
        (5, 5.1, "host", None),
        (5.1, 7, "operator", BACKWARD),
        (7, 8, "host", "ProfilerStep#3"),
        (8, 9, "operator", "aten::_foreach_add_"),
        (9, 10, "host", "ProfilerStep#3"),
    ]
    assert critical_path(synth.run())["lane"].to_list() == ["1"] * 3 + ["2"] * 3 + ["1"] * 3


def test_without_steps_the_main_thread_is_the_one_that_does_more_than_backward() -> None:
    synth = Synth().host("aten::mm", "operator", 1, 2).host(BACKWARD, "operator", 3, 7, thread="2")
    synth.host("aten::_foreach_add_", "operator", 8, 9)
    assert critical_path(synth.run())["lane"].to_list() == ["1", "1", "2", "1", "1"]


def test_backward_launches_kernels_too() -> None:
    synth = step(Synth(), 10).host("aten::mm", "operator", 1, 2).host(BACKWARD, "operator", 3, 5, thread="2")
    launch(synth, 4, 4.5, 1, thread="2")
    synth.kernel(4.51, 8, "wgrad", correlation=1).host("cudaDeviceSynchronize", "runtime", 6, 8.1)
    assert path_of(synth.run())[2:7] == [
        (2, 3, "host", "ProfilerStep#3"),
        (3, 4, "operator", BACKWARD),
        (4, 4.5, "runtime", "cudaLaunchKernel"),
        (4.5, 4.51, "launch latency", "wgrad"),
        (4.51, 8, "compute", "wgrad"),
    ]


def test_a_collective_on_the_host_is_waited_for() -> None:
    synth = step(Synth(), 20).host("aten::mm", "operator", 1, 2)
    synth.host("gloo:all_reduce", "annotation", 3, 16, thread="9").host("aten::add_", "operator", 17, 18)
    assert path_of(synth.run())[2:5] == [
        (2, 3, "host", "ProfilerStep#3"),
        (3, 16, "communication", "gloo:all_reduce"),
        (16, 17, "host", "ProfilerStep#3"),
    ]


def test_a_collective_on_the_host_that_runs_beside_is_not() -> None:
    synth = step(Synth(), 20).host("gloo:all_reduce", "annotation", 3, 5.5, thread="9")
    for start in range(1, 15, 2):
        synth.host("aten::mm", "operator", start, start + 1.2)
    assert {row[2] for row in path_of(synth.run())} == {"host", "operator"}


def test_a_pinning_thread_beside_the_main_one_is_not_waited_for() -> None:
    synth = (
        step(Synth(), 10).host("aten::mm", "operator", 1, 2).host("aten::pin_memory", "operator", 2, 4.9, thread="5")
    )
    synth.host("aten::mm", "operator", 5, 6)
    assert set(critical_path(synth.run())["lane"]) == {"1"}


def test_waiting_for_data_is_a_class_of_its_own() -> None:
    synth = step(Synth(), 10).host(LOADER, "annotation", 1, 6).host("aten::stack", "operator", 2, 3)
    assert path_of(synth.run()) == [
        (0, 1, "host", "ProfilerStep#3"),
        (1, 2, "data wait", LOADER),
        (2, 3, "data wait", "aten::stack"),
        (3, 6, "data wait", LOADER),
        (6, 10, "host", "ProfilerStep#3"),
    ]


def test_shutting_the_workers_down_is_no_wait_for_data() -> None:
    synth = step(Synth(), 10).host(LOADER, "annotation", 1, 6)
    synth.host("torch/utils/data/dataloader.py(1500): _shutdown_workers", "python", 2, 6)
    assert path_of(synth.run())[1:3] == [(1, 2, "data wait", LOADER), (2, 6, "host", LOADER)]


def test_operators_are_split_at_what_runs_inside_them() -> None:
    synth = step(Synth(), 6).host("aten::linear", "operator", 1, 5).host("aten::addmm", "operator", 2, 4)
    table = critical_path(synth.run())
    assert table.select("name", "operator", "index").rows() == [
        ("ProfilerStep#3", None, 0),
        ("aten::linear", "aten::linear", 1),
        ("aten::addmm", "aten::addmm", 2),
        ("aten::linear", "aten::linear", 1),
        ("ProfilerStep#3", None, 0),
    ]


def test_a_delay_that_nothing_explains_is_unknown() -> None:
    synth = step(Synth(), 2)
    launch(synth, 1, 1.1, 1)
    synth.kernel(3, 4, correlation=1)
    assert path_of(synth.run())[-2:] == [(1.1, 3, "unknown", "gemm"), (3, 4, "compute", "gemm")]


def test_work_without_a_launch_was_launched_when_it_started() -> None:
    synth = step(Synth(), 5).host("aten::mm", "operator", 0.5, 2).kernel(1.5, 4)
    synth.host("cudaDeviceSynchronize", "runtime", 2, 4.1)
    assert path_of(synth.run())[1:4] == [
        (0.5, 1.5, "operator", "aten::mm"),
        (1.5, 4, "compute", "gemm"),
        (4, 4.1, "synchronization", "cudaDeviceSynchronize"),
    ]


def test_a_trace_of_the_device_alone() -> None:
    run = Synth().kernel(1, 3, "a").kernel(4, 6, "b", stream="8").kernel(6, 7, "c").run()
    assert path_of(run) == [
        (1, 3, "compute", "a"),
        (3, 4, "unknown", "b"),
        (4, 6, "compute", "b"),
        (6, 7, "compute", "c"),
    ]


def test_a_recording_without_steps_is_one() -> None:
    run = Synth().host("aten::mm", "operator", 1, 3).host("aten::add", "operator", 4, 5).run()
    assert critical_path(run)["step"].to_list() == [0, 0, 0]
    assert path_of(run) == [(1, 3, "operator", "aten::mm"), (3, 4, "host", None), (4, 5, "operator", "aten::add")]


def test_the_sum_by_class_and_by_name() -> None:
    synth = Synth()
    for number in range(2):
        at = 10 * number
        synth.host(f"ProfilerStep#{number}", "annotation", at, at + 10)
        synth.host("aten::mm", "operator", at + 1, at + 4 + number)
    summary = (
        critical_path_summary(synth.run()).select("step", "class", pl.col("duration") / MS, "share", "segments").rows()
    )
    assert summary == [
        (None, "host", 6.5, 0.65, 4), (None, "operator", 3.5, 0.35, 2),
        (0, "host", 7.0, 0.7, 2), (0, "operator", 3.0, 0.3, 1),
        (1, "host", 6.0, 0.6, 2), (1, "operator", 4.0, 0.4, 1),
    ]  # fmt: skip
    names = (
        critical_path_names(synth.run()).select("name", "segments", pl.col("total") / MS, "per_step", "share").rows()
    )
    assert names == [(None, 4, 13.0, 6.5 * MS, 0.65), ("aten::mm", 2, 7.0, 3.5 * MS, 0.35)]


REAL = (
    "hta/critical_path/simple_add", "hta/critical_path/alexnet", "hta/critical_path/cuda_event_sync",
    "hta/critical_path/cuda_event_sync_multi_stream", "hta/amd_trace", "hta/cpu_only_older", "hta/sampled_2ranks",
    "hta/triton_example", "hta/with_gpu_user_annotation", "local/cpu_mlp", "local/gloo_ddp2",
    "tracelens/torch_compile_triton", "tracelens/sglang_decode/sglang_Qwen3-8B_decode.json.gz",
    "tracelens/vllm_decode_full/graph_execution.json.gz",
    "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz",
)  # fmt: skip
# Recordings that began while the device did what had been launched before: the first kernel waits 7.8 of 18.6 ms, and
# 463 of 474 ms.
UNKNOWN = {
    "tracelens/vllm_decode_full/graph_execution.json.gz": 0.43,
    "tracelens/sglang_decode/sglang_Qwen3-8B_decode.json.gz": 0.98,
}


@pytest.mark.parametrize("name", REAL)
def test_real_traces(corpus: Path, name: str) -> None:
    """That segments fill each step is asserted in the analysis; here, that what is unknown is little."""
    run = open_run(corpus / "traces" / name)
    path = critical_path(run)
    assert not path.is_empty()
    unknown = pl.col("duration").filter(pl.col("class") == "unknown").sum() / pl.col("duration").sum()
    assert path.select(unknown).item() <= UNKNOWN.get(name, 0.01)
    shares = critical_path_summary(run).group_by("rank", "step").agg(pl.col("share").sum())["share"]
    assert shares.to_list() == pytest.approx([1.0] * len(shares))


def test_an_event_that_the_host_waits_for(corpus: Path) -> None:
    """A kernel that spins for 36 µs, and an event behind it that the host synchronizes with."""
    run = open_run(corpus / "traces" / "hta/critical_path/cuda_event_sync")
    path = critical_path(run).select("class", pl.col("name").str.tail(17), "duration")
    place = path["name"].to_list().index("spin_kernel(long)")
    assert path[place - 1 : place + 4].rows() == [
        ("runtime", "cudaLaunchKernel", 9 * US),
        ("launch latency", "spin_kernel(long)", 1 * US),
        ("compute", "spin_kernel(long)", 36 * US),
        ("synchronization", "aEventSynchronize", 8 * US),
        ("host", "ProfilerStep#100", 3 * US),
    ]


def test_a_delay_as_holistic_trace_analysis_has_it(corpus: Path) -> None:
    """HTA's launch delay of 27 µs is from the begin of the call: its 15 µs, and 12 µs of latency."""
    run = open_run(corpus / "traces" / "hta/critical_path/simple_add")
    order = host_order(run)
    work = path_work(run, order)
    (row,) = np.flatnonzero(work.frame["index"].to_numpy() == 1051).tolist()
    assert work.via[row] == LAUNCH
    assert work.start[row] - work.at[row] == 12 * US
    assert work.start[row] - order.start[work.source[row]] == 27 * US


def test_an_empty_step_is_no_part_of_the_means() -> None:
    """A profiler that stops marks one more step, in which nothing runs."""
    synth = Synth()
    for step in range(3):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + (100 if step < 2 else 1))
        if step < 2:
            synth.host("aten::mm", "operator", start, start + 80)
    summary = critical_path_summary(synth.run())
    assert summary["step"].drop_nulls().unique().sort().to_list() == [0, 1]
    mean = summary.filter(pl.col("step").is_null(), pl.col("class") == "operator")
    assert mean["duration"].item() == 80 * MS
