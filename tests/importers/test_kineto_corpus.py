"""Every Kineto trace of the corpus against exact reference values: no event is lost, no time is a nanosecond off."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from stepscope.core.importing import Importer, Sink
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Run

KINETO = PluginGroup("importers", Importer).get("kineto")
WORK = ("kernel", "memcpy", "memset")
EVENT_TABLES = ("host", "device", "memory", "flows", "counters", "instants")
HOST_CALLS = ("runtime", "driver")


def read(path: Path) -> Run:
    sink = Sink()
    KINETO.read(path, sink)
    return sink.run(str(path))


def meta(run: Run) -> dict[str, str]:
    return dict(run.optional("meta").select("key", "value").rows())


def test_trace_equals_reference(corpus: Path, golden_trace: str) -> None:
    golden = json.loads((corpus / "golden" / golden_trace).read_text())
    run = read(corpus / "traces" / golden["trace"])
    base = int(meta(run).get("baseTimeNanoseconds", 0))
    assert run.optional("skipped").rows() == []
    assert int(meta(run)["events"]) == golden["event_count"]
    assert placed(run) == golden["event_count"]
    assert phases(run) == {phase: count for phase, count in golden["events_by_phase"].items() if phase != "M"}
    assert steps(run, base) == sorted(
        (step["name"], step["ts_ns"], step["dur_ns"]) for step in golden["profiler_steps"]
    )
    assert device_counts(run, base) == {
        device: {name: values[name] for name in DEVICE_VALUES} for device, values in golden["devices"].items()
    }
    if "mtia_runtime" not in golden["events_by_category"]:  # the reference leaves the launches of that device out
        launches = golden["launches"]
        assert launch_counts(run) == {name: launches[name] for name in LAUNCH_VALUES}


def placed(run: Run) -> int:
    """Events of the source that are in a table: positions are unique over all tables."""
    positions = pl.concat([run.optional(table).select(pl.col("index").unique()) for table in EVENT_TABLES])
    assert positions["index"].is_unique().all()
    return len(positions) + int(meta(run)["metadata_events"])


def phases(run: Run) -> dict[str, int]:
    flows = run.optional("flows")
    found = {
        "X": len(run.optional("host")) + len(run.optional("device")),
        "i": len(run.optional("memory")) + len(run.optional("instants")),
        "s": int(flows["begins"].sum()),
        "f": len(flows) - int(flows["begins"].sum()),
        "C": run.optional("counters")["index"].n_unique(),
    }
    return {phase: count for phase, count in found.items() if count}


def steps(run: Run, base: int) -> list[tuple[str, int, int]]:
    rows = run.optional("host").filter(pl.col("name").str.starts_with("ProfilerStep"))
    return sorted((name, start - base, end - start) for name, start, end in rows.select("name", "start", "end").rows())


DEVICE_VALUES = (
    "kernel_count", "memcpy_count", "memset_count", "kernel_duration_sum_ns", "memcpy_duration_sum_ns",
    "memset_duration_sum_ns", "zero_duration_gpu_events", "first_gpu_start_ns", "last_gpu_end_ns", "streams",
)  # fmt: skip


def device_counts(run: Run, base: int) -> dict[str, dict[str, Any]]:
    work = run.optional("device").filter(pl.col("kind").is_in(WORK))
    result: dict[str, dict[str, Any]] = {}
    for (device,), rows in work.group_by("device"):
        values: dict[str, Any] = {
            "zero_duration_gpu_events": len(rows.filter(pl.col("start") == pl.col("end"))),
            "first_gpu_start_ns": rows.select(pl.col("start").min()).item() - base,
            "last_gpu_end_ns": rows.select(pl.col("end").max()).item() - base,
            "streams": dict(rows["stream"].value_counts().rows()),
        }
        for kind in WORK:
            of_kind = rows.filter(pl.col("kind") == kind)
            values[f"{kind}_count"] = len(of_kind)
            values[f"{kind}_duration_sum_ns"] = int((of_kind["end"] - of_kind["start"]).sum())
        result[str(device)] = {name: values[name] for name in DEVICE_VALUES}
    return result


LAUNCH_VALUES = (
    "host_runtime_and_driver_calls", "host_calls_matched_to_a_kernel", "host_calls_matched_to_any_gpu_event",
    "kernels_matched_to_a_host_call", "gpu_events_matched_to_a_host_call", "gpu_events",
)  # fmt: skip


def launch_counts(run: Run) -> dict[str, int]:
    calls = run.optional("host").filter(pl.col("kind").is_in(HOST_CALLS))
    work = run.optional("device").filter(pl.col("kind").is_in(WORK))
    kernels = work.filter(pl.col("kind") == "kernel")

    def matched(rows: pl.DataFrame, others: pl.DataFrame) -> int:
        linked = others.filter(pl.col("correlation") != 0)
        return len(rows.join(linked, on=("pid", "correlation"), how="semi"))

    return {
        "host_runtime_and_driver_calls": len(calls),
        "host_calls_matched_to_a_kernel": matched(calls, kernels),
        "host_calls_matched_to_any_gpu_event": matched(calls, work),
        "kernels_matched_to_a_host_call": matched(kernels, calls),
        "gpu_events_matched_to_a_host_call": matched(work, calls),
        "gpu_events": len(work),
    }
