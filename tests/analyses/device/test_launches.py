"""Launches, queues, copies, counters over time and sequences of kernels, counted by hand."""

import polars as pl
import pytest

from stepscope.analyses.device.copies import copies
from stepscope.analyses.device.copy_bandwidth import copy_bandwidth
from stepscope.analyses.device.gpu_counters import gpu_counters
from stepscope.analyses.device.kernel_sequences import kernel_sequences
from stepscope.analyses.device.launches import launches
from stepscope.analyses.device.queue_length import queue_length
from stepscope.analyses.device.queue_summary import queue_summary
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.operators.operator_delays import operator_delays
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis
from stepscope.core.synth import MS, Synth

BYTES = 6_000_000


def launched(synth: Synth, call: float, start: float, end: float, *, number: int, **columns: object) -> Synth:
    """A kernel and its launch, which takes 2 ms from `call` on."""
    synth.host("cudaLaunchKernel", "runtime", call, call + 2, correlation=number)
    return synth.kernel(start, end, correlation=number, **columns)  # type: ignore[arg-type]


def test_launches_by_call() -> None:
    synth = Synth().host("cudaLaunchKernel", "runtime", 90, 95, correlation=99)  # launched nothing that was recorded
    launched(synth, 0, 1, 10, number=1)  # starts before the call returns
    launched(synth, 3, 10, 11, number=2)  # 5 ms after its end, and shorter than the call
    launched(synth, 6, 11, 21, number=3)
    synth.host("cudaGraphLaunch", "runtime", 20, 20.04, correlation=4)
    for at in (20.1, 22, 24):
        synth.kernel(at, at + 1, correlation=4)
    rows = {row.pop("call"): row for row in launches(synth.run()).iter_rows(named=True)}
    assert rows["cudaLaunchKernel"] == {
        "rank": 0, "calls": 3, "work": 3, "host_total": 6 * MS, "host_mean": 2 * MS, "host_max": 2 * MS,
        "device_total": 20 * MS, "delay_mean": pytest.approx(8 / 3 * MS), "delay_p50": 3 * MS,
        "delay_p99": pytest.approx(4.96 * MS), "delay_max": 5 * MS, "short_work": 1, "slow_calls": 3, "late_starts": 2,
    }  # fmt: skip
    graph = rows["cudaGraphLaunch"]
    assert [graph[name] for name in ("calls", "work", "device_total", "delay_max", "slow_calls", "late_starts")] == [
        1, 3, 3 * MS, pytest.approx(0.06 * MS), 0, 0
    ]  # fmt: skip


def test_the_queue_of_a_stream() -> None:
    synth = launched(Synth(), 0, 1, 10, number=1)
    launched(synth, 3, 10, 20, number=2)
    launched(synth, 5, 20, 30, number=3)
    launched(synth, 8, 8, 9, number=4, stream="8")
    run = synth.kernel(40, 50).run()  # without a launch: in no queue
    assert queue_length(run).drop("rank", "device").rows() == [
        ("7", 0, 1), ("7", 1 * MS, 0), ("7", 3 * MS, 1), ("7", 5 * MS, 2), ("7", 10 * MS, 1), ("7", 20 * MS, 0),
    ]  # fmt: skip
    assert queue_summary(run).rows(named=True) == [
        {"rank": 0, "device": 0, "stream": "7", "launches": 3, "span": 20 * MS, "mean": 23 / 20, "max": 2,
         "wait_mean": pytest.approx(23 / 3 * MS), "wait_max": 15 * MS, "empty": 2 * MS, "full": 0},
        {"rank": 0, "device": 0, "stream": "8", "launches": 1, "span": 0, "mean": None, "max": 0,
         "wait_mean": 0, "wait_max": 0, "empty": 0, "full": 0},
    ]  # fmt: skip


def test_a_full_queue() -> None:
    synth = Synth()
    for number in range(1025):
        synth.host("cudaLaunchKernel", "runtime", number, number + 1, correlation=number + 1)
        synth.kernel(2000 + number, 2001 + number, correlation=number + 1)
    (row,) = queue_summary(synth.run()).iter_rows(named=True)
    assert (row["max"], row["full"], row["empty"]) == (1025, (2001 - 1023) * MS, 0)


def test_a_graph_is_one_launch_in_each_of_its_streams() -> None:
    synth = Synth().host("cudaGraphLaunch", "runtime", 0, 1, correlation=1)
    synth.kernel(2, 3, correlation=1).kernel(3, 4, correlation=1).kernel(3, 4, correlation=1, stream="8")
    assert queue_length(synth.run()).select("stream", "time", "length").rows() == [
        ("7", 0, 1), ("7", 2 * MS, 0), ("8", 0, 1), ("8", 3 * MS, 0)
    ]  # fmt: skip


def copy(synth: Synth, name: str, start: float, end: float, size: int | None = BYTES, kind: str = "memcpy") -> Synth:
    return synth.kernel(start, end, name, kind=kind, bytes=size)


def test_copies_by_kind() -> None:
    synth = copy(Synth(), "Memcpy HtoD (Pageable -> Device)", 0, 2)  # 3 GB/s
    copy(synth, "Memcpy HtoD (Pageable -> Device)", 1, 2)  # 6 GB/s, beside the first
    copy(synth, "Memcpy HtoD (Pinned -> Device)", 10, 11).kernel(10.5, 20)
    copy(synth, "CopyDeviceToHost", 30, 31, size=None)
    copy(synth, "Memset (Device)", 40, 40, size=4, kind="memset")
    assert copies(synth.run()).drop("rank", "device").rows() == [
        ("HtoD", "pageable", 2, 2 * BYTES, 3 * MS, 1.5 * MS, 2 * MS, 2 * MS, 4.0, 3.0, 6.0),
        ("DtoH", None, 1, None, 1 * MS, 1 * MS, 1 * MS, 1 * MS, None, None, None),
        ("HtoD", "pinned", 1, BYTES, 1 * MS, 1 * MS, 1 * MS, 0.5 * MS, 6.0, 6.0, 6.0),
        ("memset", None, 1, 4, 0, 0, 0, 0, None, None, None),
    ]


def test_the_bandwidth_that_the_profiler_wrote_counts_if_it_is_one() -> None:
    synth = Synth()
    for at, bandwidth in enumerate((9.5, float("inf"), None, 0.0)):
        synth.kernel(at, at + 1, "Memcpy DtoD (Device -> Device)", kind="memcpy", bytes=BYTES, bandwidth=bandwidth)
    synth.kernel(9, 9, "Memcpy DtoD (Device -> Device)", kind="memcpy", bytes=4, bandwidth=0.5)
    (row,) = copies(synth.run()).iter_rows(named=True)
    assert (row["bandwidth_min"], row["bandwidth_max"]) == (0.5, 9.5)
    assert copy_bandwidth(synth.run())["bandwidth"].to_list() == [9.5, 6.0, 6.0, 6.0, 0.0]


@pytest.mark.parametrize(
    ("name", "way", "memory"),
    [
        ("Memcpy DtoH (Device -> Pinned)", "DtoH", "pinned"),
        ("Memcpy DtoD (Device -> Device)", "DtoD", None),
        ("Memcpy PtoP (Device -> Device)", "PtoP", None),
        ("Memcpy HtoD (Host -> Device)", "HtoD", None),
        ("CopyHostToDevice", "HtoD", None),
        ("hipMemcpyDtoH", "DtoH", None),
        ("CopyDeviceToDevice", "DtoD", None),
        ("dma", None, None),
    ],
)
def test_names_of_copies(name: str, way: str | None, memory: str | None) -> None:
    (row,) = copies(copy(Synth(), name, 0, 1).run()).iter_rows(named=True)
    assert (row["copy"], row["host_memory"]) == (way, memory)


def test_bandwidth_over_time() -> None:
    synth = copy(Synth(), "Memcpy HtoD (Pageable -> Device)", 0, 2)
    copy(synth, "Memcpy HtoD (Pageable -> Device)", 1, 2.5)
    copy(synth, "Memset (Device)", 7, 7, size=4, kind="memset")
    assert copy_bandwidth(synth.run()).drop("rank", "device", "host_memory").rows() == [
        ("HtoD", 0, 1, 3.0), ("HtoD", 1 * MS, 2, 7.0), ("HtoD", 2 * MS, 1, 4.0), ("HtoD", 2.5 * MS, 0, 0.0)
    ]  # fmt: skip
    with pytest.raises(MissingData, match="known size"):
        copy_bandwidth(copy(Synth(), "dma", 0, 1, size=None).run())


def test_counters_of_a_device_over_time() -> None:
    synth = Synth().host("PyTorch Profiler (0)", "other", 0, 3.5)
    synth.kernel(0.2, 0.4, blocks_per_sm=0.5, occupancy=0.5).kernel(0.3, 0.4, stream="8", blocks_per_sm=0.75)
    synth.kernel(0.9, 1.1, blocks_per_sm=float("inf"), occupancy=1.0)
    synth.kernel(2.0, 3.0, "Memcpy DtoH", kind="memcpy")
    table = gpu_counters(synth.run())
    assert table.select("start", "end").rows() == [
        (at * MS // 10, (at + 1) * MS // 10 if at < 34 else 35 * MS // 10) for at in range(35)
    ]
    shown = table.filter(pl.col("utilization") > 0).select("utilization", "sm_efficiency", "occupancy")
    assert shown.rows() == [
        (1.0, pytest.approx(0.5), 0.5), (1.0, pytest.approx(1.0), 0.5),
        (1.0, pytest.approx(1.0), 1.0), (1.0, pytest.approx(1.0), 1.0),
    ]  # fmt: skip
    idle = table.filter(pl.col("utilization") == 0)
    assert idle["sm_efficiency"].unique().to_list() == [pytest.approx(0, abs=1e-12)]
    assert idle["occupancy"].null_count() == idle.height


def test_the_last_stretch_takes_the_rest() -> None:
    table = gpu_counters(Synth().kernel(0, 1.095).run())
    assert table.height == 10
    assert table.row(-1, named=True)["end"] - table.row(-1, named=True)["start"] == 0.195 * MS
    assert gpu_counters(Synth().kernel(0, 0.001).run()).height == 1


def test_counters_that_no_kernel_carries_are_unknown() -> None:
    table = gpu_counters(Synth().kernel(0, 1).kernel(3, 4).run())
    assert table["sm_efficiency"].null_count() == table["occupancy"].null_count() == table.height
    assert table["utilization"].sum() == pytest.approx(20)


def test_counters_between_traced_windows_are_unknown() -> None:
    synth = Synth()
    for step in (0, 9):
        synth.host(f"ProfilerStep#{step}", "annotation", step, step + 1).kernel(step + 0.5, step + 1)
    found = gpu_counters(synth.run())["utilization"].to_list()
    assert found == [1.0] * 5 + [None] * 80 + [0.0] * 5 + [1.0] * 5


def linear(synth: Synth, at: float, number: int, *names: str) -> None:
    """aten::linear, which calls aten::addmm, which launches kernels of 2 ms, 1 ms apart."""
    synth.host("aten::linear", "operator", at, at + 20).host("aten::addmm", "operator", at + 1, at + 18)
    for place, name in enumerate(names):
        call = at + 2 + place
        synth.host("cudaLaunchKernel", "runtime", call, call + 0.5, correlation=number + place)
        synth.kernel(at + 30 + 3 * place, at + 32 + 3 * place, name, correlation=number + place)


def test_sequences_of_kernels() -> None:
    synth = Synth()
    linear(synth, 0, 1, "gemm", "bias")
    linear(synth, 100, 10, "gemm", "bias")
    linear(synth, 200, 20, "gemm", "splitk", "bias")
    linear(synth, 300, 30, "gemm")
    assert kernel_sequences(synth.run()).drop("rank").rows() == [
        ("aten::addmm", "aten::linear", 2, 2, 40 * MS, 8 * MS, 2 * MS, ["gemm", "bias"]),
        ("aten::addmm", "aten::linear", 3, 1, 20 * MS, 6 * MS, 2 * MS, ["gemm", "splitk", "bias"]),
    ]


def test_an_operator_that_launches_more_than_those_inside_it_has_a_sequence_of_its_own() -> None:
    synth = Synth().host("block", "annotation", -5, 90).host("aten::block", "operator", -4, 80)
    linear(synth, 0, 1, "gemm", "bias")
    linear(synth, 40, 10, "gemm", "bias")
    found = kernel_sequences(synth.run()).select("operator", "called_by", "calls", "sequence").rows()
    assert found == [
        ("aten::block", "aten::block", 1, ["gemm", "bias", "gemm", "bias"]),
        ("aten::addmm", "aten::linear", 2, ["gemm", "bias"]),
    ]


def test_delays_of_operators() -> None:
    synth = Synth()
    linear(synth, 0, 1, "gemm", "bias")
    linear(synth, 100, 10, "gemm", "bias")
    synth.host("aten::add", "operator", 300, 310).host("cudaLaunchKernel", "runtime", 304, 305, correlation=20)
    synth.kernel(307, 308, "add", correlation=20)
    assert operator_delays(synth.run()).drop("rank").rows() == [
        ("aten::addmm", 2, 2, 1 * MS, 28 * MS, 8 * MS, ["gemm", "bias"]),
        ("aten::add", 1, 1, 4 * MS, 3 * MS, 1 * MS, ["add"]),
    ]


def test_a_graph_is_no_sequence_of_an_operator() -> None:
    synth = Synth().host("aten::mm", "operator", 0, 10).host("cudaGraphLaunch", "runtime", 1, 2, correlation=1)
    for at in range(65):
        synth.kernel(20 + at, 21 + at, correlation=1)
    assert kernel_sequences(synth.run()).is_empty()


@pytest.mark.parametrize("analysis", [launches, queue_length, queue_summary, kernel_sequences, operator_delays])
def test_launches_that_were_not_recorded(analysis: Analysis) -> None:
    with pytest.raises(MissingData, match="launch device work"):
        analysis(Synth().kernel(0, 5).run())


@pytest.mark.parametrize("analysis", [copies, copy_bandwidth])
def test_a_run_without_copies(analysis: Analysis) -> None:
    with pytest.raises(MissingData, match="copies or sets"):
        analysis(Synth().kernel(0, 5).run())


@pytest.mark.parametrize(
    "analysis",
    [launches, queue_length, queue_summary, kernel_sequences, operator_delays, copies, copy_bandwidth, gpu_counters],
)
def test_a_job_on_the_cpu(analysis: Analysis) -> None:
    with pytest.raises(MissingData, match="no device work"):
        analysis(Synth().host("aten::mm", "operator", 0, 5).run())


def test_an_occupancy_of_zero_is_unknown_where_blocks_fill_the_device() -> None:
    """Kineto writes 0 where it cannot estimate it; of one warp on few SMs 0 is the rounded value."""
    synth = Synth().kernel(0, 1, "full", blocks_per_sm=4.0, occupancy=0.0)
    synth.kernel(1, 2, "tiny", blocks_per_sm=0.01, occupancy=0.0).kernel(
        2, 3, "known", blocks_per_sm=4.0, occupancy=0.5
    )
    work = device_work(synth.run(), "occupancy")
    assert work["occupancy"].to_list() == [None, 0.0, 0.5]
