"""Times of devices and launches against reference values that were computed twice with integer arithmetic."""

import json
from pathlib import Path

import polars as pl
import pytest

from stepscope.analyses.device.attribution import attribution
from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.steps.steps import steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.storage import open_run

pytestmark = pytest.mark.slow

DEVICE_TIME = {
    "kernels": "kernel_count",
    "memcpys": "memcpy_count",
    "memsets": "memset_count",
    "span": "span_ns",
    "kernel_busy": "kernel_union_ns",
    "busy": "all_gpu_union_ns",
    "compute_busy": "compute_union_ns",
    "communication_busy": "communication_union_ns",
    "memory_busy": "memory_union_ns",
    "exposed_communication": "exposed_communication_ns",
    "exposed_memory": "exposed_memory_ns",
    "idle": "idle_ns",
}


def test_devices_launches_and_steps_are_those_of_the_reference(corpus: Path, golden_trace: str) -> None:
    golden = json.loads((corpus / "golden" / golden_trace).read_text())
    run = open_run(corpus / "traces" / golden["trace"])
    base = _base(run)
    assert _devices(run, base) == {
        int(device): {name: values[source] for name, source in DEVICE_TIME.items()}
        | {"first_start": values["first_gpu_start_ns"], "last_end": values["last_gpu_end_ns"]}
        for device, values in golden["devices"].items()
    }
    if golden["devices"]:
        assert _launches(run) == {name: golden["launches"][name] for name in _launches(run)}
    assert _steps(run, base) == sorted((step["ts_ns"], step["dur_ns"]) for step in golden["profiler_steps"])


def _base(run: Run) -> int:
    """What the importer adds to the times of the file."""
    base = run.optional("meta").filter(pl.col("key") == "baseTimeNanoseconds")["value"]
    return int(base[0]) if len(base) else 0


def _devices(run: Run, base: int) -> dict[int, dict[str, int]]:
    try:
        table = device_time(run)
    except MissingData:
        return {}
    moved = table.with_columns(pl.col("first_start", "last_end") - base)
    return {
        row["device"]: {k: row[k] for k in row if k not in ("rank", "device")} for row in moved.iter_rows(named=True)
    }


def _launches(run: Run) -> dict[str, int]:
    work = run.optional("device").filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"]))
    found = attribution(run).with_columns(work.select(kernel=pl.col("kind") == "kernel"))
    launched = found.filter(pl.col("launch").is_not_null())
    kernels = launched.filter("kernel")
    return {
        "gpu_events": found.height,
        "gpu_events_matched_to_a_host_call": launched.height,
        "kernels_matched_to_a_host_call": kernels.height,
        "kernels_not_matched": found.filter(pl.col("kernel") & pl.col("launch").is_null()).height,
        "host_calls_matched_to_any_gpu_event": launched["launch"].n_unique(),
        "host_calls_matched_to_a_kernel": kernels["launch"].n_unique(),
    }


def _steps(run: Run, base: int) -> list[tuple[int, int]]:
    try:
        return sorted(steps(run).select(pl.col("start") - base, "duration").iter_rows())
    except MissingData:
        return []


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("tracelens/xdit_flux.1_aiter_sage/profile_trace_rank_0.json.gz", 1566),
        ("tracelens/sglang_decode/sglang_Qwen3-8B_decode.json.gz", 544),
        ("tracelens/vllm_decode_full/graph_execution.json.gz", 421),
    ],
)
def test_graph_replays_share_one_launch(corpus: Path, name: str, kernels: int) -> None:
    """All kernels of the largest replayed graph belong to its launch, and to the operator or annotation around it."""
    run = open_run(corpus / "traces" / name)
    per_launch = attribution(run).drop_nulls(["launch", "operator"]).group_by("launch").len()
    largest = per_launch.sort("len").row(-1, named=True)
    assert largest["len"] == kernels
    host = run.optional("host", "index", "name")
    assert host.filter(pl.col("index") == largest["launch"])["name"].to_list() == ["hipGraphLaunch"]
