"""Accelerators that record no kernels: MTIA."""

import json
from pathlib import Path

import pytest

from stepscope.analyses.communication.collectives import collectives
from stepscope.analyses.device.attribution import attribution
from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.device.other_devices import other_devices
from stepscope.core.errors import MissingData
from stepscope.core.synth import MS, Synth
from stepscope.storage import open_run

# HTA rounds both ends of each event inwards to whole microseconds: it loses up to 2 us of each.
LOST_US = 2


def test_jobs_and_copies_of_an_accelerator() -> None:
    synth = Synth()
    synth.host("runFunction", "runtime", 0, 1, correlation=5)
    synth.kernel(2, 10, "fc-dtype_Float", kind="accelerator", correlation=5, device=9)
    synth.kernel(8, 14, "dma_request", kind="accelerator", device=9)
    synth.kernel(20, 22, "add-dtype_Float", kind="accelerator", correlation=6, device=9)
    assert other_devices(synth.run()).rows() == [
        (0, 9, 2 * MS, 22 * MS, 20 * MS, 2, 1, 1, 10 * MS, 6 * MS, 4 * MS, 6 * MS),
    ]


def test_it_has_no_device_time_and_that_is_said() -> None:
    run = Synth().kernel(2, 10, "fc-dtype_Float", kind="accelerator").run()
    with pytest.raises(MissingData, match=r"not applicable.*other_devices"):
        device_time(run)
    with pytest.raises(MissingData, match="device_time"):
        other_devices(Synth().kernel(0, 1).run())


@pytest.mark.slow
def test_mtia_against_hta(corpus: Path) -> None:
    """What HTA's own test expects of this trace: less by what its rounding loses, and without events of no stream."""
    run = open_run(corpus / "traces/hta/mtia_trace_single_rank/mtia_rank_0.json.gz")
    golden = json.loads((corpus / "golden/exact/hta/mtia_trace_single_rank/mtia_rank_0.json").read_text())
    (row,) = other_devices(run).iter_rows(named=True)
    assert row["jobs"] + row["copies"] == golden["events_by_category"]["mtia_ccp_events"]
    assert 0 <= row["compute_busy"] / 1000 - 7_305_596 <= LOST_US * row["jobs"]
    assert 0 <= row["exposed_memory"] / 1000 - 373_924 <= LOST_US * row["copies"]
    assert row["span"] / 1000 == pytest.approx(13_328_347, rel=1e-3)
    assert 0 <= 5_648_827 - row["idle"] / 1000 <= LOST_US * (row["jobs"] + row["copies"])


def event(category: str, name: str, ts: float, dur: float, **members: object) -> dict[str, object]:
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1, **members}


def test_an_intel_gpu_is_read_as_any_other(tmp_path: Path) -> None:
    """Its profiler writes the same format with categories of its own, and its collectives are oneCCL's."""
    events = [
        event("cpu_op", "aten::mm", 0, 10, args={"External id": 1}),
        event("xpu_runtime", "urEnqueueKernelLaunch", 2, 1, args={"correlation": 4}),
        event("kernel", "gemm_kernel", 5, 10, pid=0, tid=3, args={"device": 0, "stream": 3, "correlation": 4}),
        event("user_annotation", "xccl:allreduce", 12, 4),
        event("xpu_runtime", "urEnqueueKernelLaunch", 13, 1, args={"correlation": 5}),
        event("kernel", "ring_kernel<float>", 20, 6, pid=0, tid=4, args={"device": 0, "stream": 4, "correlation": 5}),
        event("gpu_memcpy", "Memcpy M2D", 30, 2, pid=0, tid=3, args={"device": 0, "stream": 3, "bytes": 64}),
    ]
    file = tmp_path / "xpu.pt.trace.json"
    file.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    run = open_run(file)
    (row,) = device_time(run).iter_rows(named=True)
    assert (row["compute_busy"], row["communication_busy"], row["memory_busy"], row["idle"]) == (
        10_000, 6_000, 2_000, 9_000,
    )  # fmt: skip
    assert collectives(run)["collective"].to_list() == ["all_reduce"]
    assert attribution(run)["operator"].to_list() == [0, 3, None]
