"""Calls that take memory from the driver, and the device time that they waste."""

from pathlib import Path

import pytest

from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.memory.device_allocations import device_allocations
from stepscope.core.errors import MissingData
from stepscope.core.synth import MS, Synth
from stepscope.report.diagnose import diagnose
from stepscope.rules.memory.allocator_churn import RULE
from stepscope.storage import open_run


def figures(synth: Synth) -> list[tuple[object, ...]]:
    rows = device_allocations(synth.run()).rows(named=True)
    return [(row["call"], row["calls"], row["total"] / MS, row["stalled"] / MS) for row in rows]


def two_kernels() -> Synth:
    """A step of 100 ms: work until 40, and from 70 on, launched at 65."""
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100)
    synth.host("cudaLaunchKernel", "runtime", 1, 2, correlation=1).kernel(2, 40, correlation=1)
    return synth.host("cudaLaunchKernel", "runtime", 65, 66, correlation=2).kernel(70, 90, correlation=2)


def test_a_free_that_empties_the_device() -> None:
    synth = two_kernels().host("aten::empty", "operator", 9, 52).host("cudaFree", "runtime", 10, 50)
    assert device_allocations(synth.run()).rows(named=True) == [{
        "rank": 0, "call": "cudaFree", "operator": "aten::empty", "file": None, "line": None, "function": None,
        "text": None, "calls": 1, "total": 40 * MS, "per_step": 40.0 * MS, "steps": 1, "stalled": 30 * MS,
        "stack": None,
    }]  # fmt: skip


def test_no_more_is_lost_than_the_calls_took() -> None:
    synth = two_kernels().host("cudaFree", "runtime", 35, 42).host("cudaMalloc", "runtime", 44, 49)
    assert figures(synth) == [("cudaFree", 1, 7, 7), ("cudaMalloc", 1, 5, 5)]


def test_calls_before_one_launch_share_one_gap() -> None:
    synth = two_kernels().host("cudaFree", "runtime", 20, 45).host("cudaMalloc", "runtime", 45, 63)
    assert figures(synth) == [("cudaFree", 1, 25, 25), ("cudaMalloc", 1, 18, 5)]


def test_a_host_that_runs_ahead_loses_nothing() -> None:
    """What is launched after the call is there before the device has finished what it was given earlier."""
    synth = two_kernels().host("cudaMalloc", "runtime", 5, 6)
    synth.host("cudaLaunchKernel", "runtime", 7, 8, correlation=3).kernel(40, 60, correlation=3)
    assert figures(synth) == [("cudaMalloc", 1, 1, 0)]


def test_a_call_that_delays_the_next_launch_costs_its_length() -> None:
    assert figures(two_kernels().host("cudaMalloc", "runtime", 5, 6)) == [("cudaMalloc", 1, 1, 1)]


def test_the_drivers_call_within_the_runtimes_is_no_second_one() -> None:
    synth = two_kernels().host("cudaMalloc", "runtime", 45, 55).host("cuMemAlloc_v2", "driver", 46, 54)
    assert figures(synth) == [("cudaMalloc", 1, 10, 10)]


@pytest.mark.parametrize(
    "name", ["cudaMallocAsync", "cudaFreeAsync", "cuMemAllocFromPoolAsync", "cudaMemcpyAsync", "cudaMemsetAsync"]
)
def test_what_is_none(name: str) -> None:
    assert figures(two_kernels().host(name, "runtime", 45, 55)) == []


@pytest.mark.parametrize(
    "name", ["cudaHostAlloc", "cudaFreeHost", "cudaMallocManaged", "cuMemCreate", "cuMemUnmap", "hipExtMallocWithFlags"]
)
def test_what_is_one(name: str) -> None:
    assert figures(two_kernels().host(name, "runtime", 45, 55)) == [(name, 1, 10, 10)]


def test_outside_of_steps_it_is_not_the_steps_time() -> None:
    assert figures(two_kernels().host("cudaFree", "runtime", 101, 110)) == []


def test_without_calls_of_a_runtime_it_says_how_to_record_them() -> None:
    with pytest.raises(MissingData, match="calls of the device's runtime"):
        device_allocations(Synth().host("aten::mm", "operator", 0, 10).run())


def test_a_cache_that_fills_in_one_step_of_many_is_no_finding() -> None:
    """The same calls as in the rule's example, in the first of its steps only."""
    synth = Synth()
    for step in range(4):
        start, late = 100 * step, 0 if step else 20
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 80 + late)
        synth.host("cudaLaunchKernel", "runtime", start, start + 1, correlation=2 * step + 1)
        synth.kernel(start, start + 40, correlation=2 * step + 1)
        if late:
            synth.host("cudaFree", "runtime", start + 5, start + 60)
        synth.host("cudaLaunchKernel", "runtime", start + 40 + late, start + 41 + late, correlation=2 * step + 2)
        synth.kernel(start + 40 + late, start + 80 + late, correlation=2 * step + 2)
    run = synth.run()
    assert [row["stalled"] for row in device_allocations(run).rows(named=True)] == [20 * MS]
    assert not list(RULE.check(run))
    assert "allocator-churn" in diagnose(run).checked


@pytest.mark.parametrize(
    "trace", ["hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace", "param/linear_kineto"]
)
def test_real_traces_lose_no_more_than_they_idle(corpus: Path, trace: str) -> None:
    run = open_run(corpus / "traces" / f"{trace}.json.gz")
    rows = device_allocations(run)
    assert rows.height
    assert (rows["stalled"] <= rows["total"]).all()
    assert 0 < rows["stalled"].sum() <= (device_time(run)["span"] - device_time(run)["busy"]).sum()
