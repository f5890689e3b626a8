"""Operators, kernels and the figures of a device, counted by hand."""

import pytest

from stepscope.analyses.device.gpu_summary import gpu_summary
from stepscope.analyses.device.kernels import kernels
from stepscope.analyses.operators.operators import operators
from stepscope.core.errors import MissingData
from stepscope.core.synth import MS, Synth

TENSOR_CORES = "volta_fp16_s884gemm_fp16_128x128"


def two_layers() -> Synth:
    """A linear layer whose addmm starts two kernels in parallel, and a relu that starts one."""
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100).host("aten::linear", "operator", 10, 50)
    synth.host("aten::addmm", "operator", 20, 40)
    for correlation, at in ((1, 22), (2, 30)):
        synth.host("cudaLaunchKernel", "runtime", at, at + 4, correlation=correlation)
    synth.host("aten::relu", "operator", 60, 70).host("cudaLaunchKernel", "runtime", 61, 65, correlation=3)
    synth.kernel(30, 60, TENSOR_CORES, correlation=1, blocks_per_sm=0.5, occupancy=0.5)
    synth.kernel(40, 70, "splitk", correlation=2, blocks_per_sm=0.75, stream="8")
    return synth.kernel(70, 80, "relu", correlation=3, blocks_per_sm=4.0, occupancy=1.0)


def test_operators_have_host_and_device_time() -> None:
    rows = {row["name"]: row for row in operators(two_layers().run()).iter_rows(named=True)}
    assert {key: rows["aten::linear"][key] for key in rows["aten::linear"] if key != "name"} == {
        "rank": 0, "calls": 1, "host_total": 40 * MS, "host_self": 20 * MS,
        "device_total": 60 * MS, "device_self": 0, "device_busy": 40 * MS, "tensor_core_eligible": True,
        "tensor_core_total": 30 * MS, "tensor_core_self": 0, "tensor_core_share": 0.5, "flops": None, "per_step": 1.0,
    }  # fmt: skip
    assert (rows["aten::addmm"]["host_self"], rows["aten::addmm"]["device_self"]) == (12 * MS, 60 * MS)
    assert list(rows) == ["aten::addmm", "aten::relu", "aten::linear"]  # by device_self


def test_an_operator_inside_one_of_its_own_name_counts_its_time_once() -> None:
    synth = Synth().host("aten::div", "operator", 0, 30).host("aten::div", "operator", 5, 25)
    synth.host("cudaLaunchKernel", "runtime", 6, 8, correlation=1).kernel(10, 40, correlation=1)
    (row,) = operators(synth.run()).iter_rows(named=True)
    assert (row["calls"], row["host_total"], row["host_self"]) == (2, 30 * MS, 28 * MS)
    assert (row["device_total"], row["device_self"], row["device_busy"]) == (30 * MS, 30 * MS, 30 * MS)


def test_device_times_are_unknown_without_device_work_or_its_launches() -> None:
    synth = Synth()
    for rank in (0, 1, 2):
        synth.host("aten::mm", "operator", 0, 30, rank=rank)
    synth.host("cudaLaunchKernel", "runtime", 40, 41, rank=1, correlation=1).kernel(50, 55, rank=1, correlation=1)
    synth.kernel(0, 5, rank=2)
    device = operators(synth.run()).select("rank", "device_total", "device_self", "device_busy", "tensor_core_share")
    assert device.rows() == [(0, None, None, None, None), (1, 0, 0, 0, None), (2, None, None, None, None)]
    alone = operators(Synth().host("aten::mm", "operator", 0, 30).run())
    assert alone.select("device_total", "per_step").rows() == [(None, None)]


@pytest.mark.parametrize("name", ["ProfilerStep#3", "Optimizer.step#SGD.step", "DistributedDataParallel.forward"])
def test_annotations_that_old_traces_call_operators_are_none(name: str) -> None:
    with pytest.raises(MissingData, match="no operators"):
        operators(Synth().host(name, "operator", 0, 30).run())


def test_kernels_by_name() -> None:
    synth = two_layers().kernel(90, 91, "relu", occupancy=None, blocks_per_sm=2.0)
    assert kernels(synth.run()).rows(named=True)[2] == {
        "rank": 0, "device": 0, "name": "relu", "calls": 2, "total": 11 * MS, "share": pytest.approx(11 / 71),
        "mean": 5.5 * MS, "median": 5.5 * MS, "deviation": pytest.approx(4.5 * 2**0.5 * MS), "max": 10 * MS,
        "min": 1 * MS, "blocks_per_sm": pytest.approx(42 / 11), "occupancy": 1.0, "tensor_cores": False,
        "operator": "aten::relu",
    }  # fmt: skip
    assert kernels(synth.run())["name"].to_list() == ["splitk", TENSOR_CORES, "relu"]
    assert kernels(synth.run())["tensor_cores"].to_list() == [False, True, False]


def test_kernels_without_a_known_launch_have_no_operator() -> None:
    assert kernels(Synth().kernel(0, 10).run())["operator"].to_list() == [None]


def test_the_figures_of_a_device() -> None:
    synth = two_layers().add("devices", rank=0, device=0, name="V100", memory=34, capability="7.0", sms=80)
    assert gpu_summary(synth.run()).row(0, named=True) == {
        "rank": 0, "device": 0, "name": "V100", "memory": 34, "capability": "7.0", "window": 100 * MS,
        "utilization": 0.5,  # 30 to 80
        "sm_efficiency": pytest.approx(0.10 * 0.5 + 0.20 * 1 + 0.10 * 0.75 + 0.10 * 1),
        "occupancy": pytest.approx((30 * 0.5 + 10 * 1.0) / 40),
        "tensor_core_share": pytest.approx(30 / 70),
    }  # fmt: skip


def test_kernels_outside_of_the_window_do_not_count_but_for_tensor_cores() -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 100, 200).host("aten::mm", "operator", 0, 50)
    synth.host("cudaLaunchKernel", "runtime", 5, 9, correlation=1)
    synth.kernel(10, 20, TENSOR_CORES, correlation=1, blocks_per_sm=1.0, occupancy=1.0)
    (row,) = gpu_summary(synth.run()).iter_rows(named=True)
    figures = [row[name] for name in ("utilization", "sm_efficiency", "occupancy", "tensor_core_share")]
    assert figures == [0, None, None, 1.0]


def test_figures_that_no_kernel_carries_are_unknown() -> None:
    (row,) = gpu_summary(Synth().host("ProfilerStep#0", "annotation", 0, 100).kernel(10, 60).run()).iter_rows(
        named=True
    )
    assert [row[name] for name in ("name", "utilization", "sm_efficiency", "occupancy", "tensor_core_share")] == [
        None, 0.5, None, None, None
    ]  # fmt: skip


def test_infinite_and_negative_blocks_per_sm_do_no_harm() -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100)
    synth.kernel(0, 10, blocks_per_sm=float("inf")).kernel(5, 20, blocks_per_sm=float("inf"), stream="8")
    synth.kernel(50, 60, blocks_per_sm=-3.0)
    assert gpu_summary(synth.run())["sm_efficiency"].to_list() == [pytest.approx(0.2)]


def test_several_windows_are_taken_without_the_time_between() -> None:
    synth = Synth()
    for step in (3, 30):
        at = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", at, at + 100)
        synth.kernel(at + 10, at + 60, blocks_per_sm=1.0)
    (row,) = gpu_summary(synth.run()).iter_rows(named=True)
    assert (row["window"], row["utilization"], row["sm_efficiency"]) == (200 * MS, 0.5, 0.5)
