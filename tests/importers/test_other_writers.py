"""Traces of writers that name no categories: tasks of an NPU, and operators of torch.autograd.profiler."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.operators.operators import operators
from stepscope.core.run import Run
from stepscope.importers.kineto.other_writers import NOT_KNOWN
from stepscope.storage import open_run

HOST, NPU, GROUPS = 4001, 4002, 4003


def written(folder: Path, trace: object) -> Run:
    path = folder / "trace_view.json"
    path.write_text(json.dumps(trace))
    return open_run(path)


def named(what: str, pid: object, name: str, tid: int = 0) -> dict[str, Any]:
    key = "labels" if what == "process_labels" else "name"
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {key: name}}


def task(name: str, start: float, length: float, pid: object, tid: int, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "name": name, "ts": f"{start:.3f}", "dur": length, "pid": pid, "tid": tid, "args": {}, **more}


def npu_trace() -> list[dict[str, Any]]:
    """Two matmuls and a copy on stream 2, a wait, and a collective with one of its pieces."""
    return [
        named("process_name", HOST, "Python"),
        named("process_name", NPU, "Ascend Hardware"),
        named("process_labels", NPU, "NPU 3"),
        named("thread_name", NPU, "Stream 2", 12),
        named("process_name", GROUPS, "Communication"),
        named("thread_name", GROUPS, "Group 0 Communication", 5),
        named("thread_name", GROUPS, "Plane 0", 6),
        task("aten::matmul", 0, 40, HOST, 1, cat="cpu_op"),
        task("aclnnMatmul_MatMulV2_MatMulV2", 100, 200, NPU, 12),
        task("aclnnMatmul_MatMulV2_MatMulV2", 300, 100, NPU, 12),
        task("MEMCPY_ASYNC", 400, 50, NPU, 12),
        task("EVENT_WAIT", 450, 500, NPU, 12),
        task("hcom_allReduce__123_0_1", 600, 300, GROUPS, 5),
        task("Reduce_Inline", 620, 100, GROUPS, 6),
    ]


def test_tasks_of_an_npu_are_work_of_a_device(tmp_path: Path) -> None:
    run = written(tmp_path, npu_trace())
    rows = run.optional("device", "name", "kind", "device", "stream").rows()
    assert rows == [
        ("aclnnMatmul_MatMulV2_MatMulV2", "kernel", 3, "2"),
        ("aclnnMatmul_MatMulV2_MatMulV2", "kernel", 3, "2"),
        ("MEMCPY_ASYNC", "memcpy", 3, "2"),
        ("EVENT_WAIT", "sync", 3, "2"),
        ("hcom_allReduce__123_0_1", "kernel", 3, "Group 0 Communication"),
        ("Reduce_Inline", "other", 3, "Plane 0"),
    ]
    (time,) = device_time(run).to_dicts()
    assert (time["compute_busy"], time["communication_busy"], time["memory_busy"]) == (300_000, 300_000, 50_000)
    assert run.optional("host", "name")["name"].to_list() == ["aten::matmul"]


def test_an_export_of_the_autograd_profiler(tmp_path: Path) -> None:
    events = [
        task("aten::add", 0, 10, "CPU functions", 7),
        task("aten::mul", 10, 10, "CPU functions", 7),
        task("add_kernel", 20, 30, "CUDA functions", 1),
    ]
    run = written(tmp_path, events)
    assert set(operators(run)["name"]) == {"aten::add", "aten::mul"}
    assert run.optional("device", "name", "kind", "device", "pid").rows() == [
        ("add_kernel", "kernel", 1, "CUDA functions")
    ]


def test_events_of_no_known_category_are_told(tmp_path: Path) -> None:
    run = written(tmp_path, [task("a", 0, 10, 1, 1), task("b", 0, 10, 1, 1, cat="mine")])
    skipped = run.optional("skipped").filter(pl.col("reason") == NOT_KNOWN)
    assert skipped["count"].to_list() == [2]
