"""The reader of Kineto traces on small traces written here, and on one that torch writes on the spot."""

import gzip
import json
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from stepscope.core.errors import BadInput
from stepscope.core.importing import Importer, Sink
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Run

KINETO = PluginGroup("importers", Importer).get("kineto")
Event = dict[str, Any]


def read(path: Path) -> Run:
    sink = Sink()
    KINETO.read(path, sink)
    return sink.run(str(path))


def written(folder: Path, *events: Event, name: str = "a.pt.trace.json", **header: object) -> Run:
    path = folder / name
    path.write_text(json.dumps({"schemaVersion": 1, **header, "traceEvents": events}))
    return read(path)


def ranged(cat: str, name: str, ts: float, dur: float, **more: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": 8, "ts": ts, "dur": dur, **more}


def test_host_row(tmp_path: Path) -> None:
    args = {
        "External id": 3, "Sequence number": 4, "Fwd thread id": 1, "Input Dims": [[2, 3], []],
        "Input type": ["float", ""], "Call stack": "a.py(1): f;b.py(2): g",
        "Concrete Inputs": ["", "1"],
    }  # fmt: skip
    run = written(tmp_path, ranged("cpu_op", "aten::mm", 1.5, 2, args=args), baseTimeNanoseconds=1_000_000)
    assert run.optional("host").row(0, named=True) == {
        "rank": 0, "pid": "7", "thread": "8", "index": 0, "name": "aten::mm", "kind": "operator", "start": 1_001_500,
        "end": 1_003_500, "correlation": None, "external_id": 3, "sequence": 4, "forward_thread": 1,
        "input_dims": "[[2,3],[]]", "input_types": '["float",""]', "call_stack": "a.py(1): f;b.py(2): g",
        "concrete_inputs": '["","1"]', "python_id": None, "python_parent_id": None, "module_id": None,
    }  # fmt: skip


def test_kernel_row_has_the_process_that_launched_it(tmp_path: Path) -> None:
    args = {
        "device": 1, "stream": 20, "correlation": 5, "External id": 3, "grid": [4, 1, 1], "block": [128, 1, 1],
        "registers per thread": 16, "shared memory": 1024, "blocks per SM": 0.5, "warps per SM": 2,
        "est. achieved occupancy %": 37, "graph node id": 9, "Collective name": "allreduce", "dtype": "Float",
        "Process Group Name": "0", "In msg nelems": 10, "Out msg nelems": 20, "Seq": 12,
        "Process Group Ranks": "[0, 1]", "Group size": 2, "Process Group Description": "mesh_dp", "Src Rank": 3,
        "Dst Rank": 4,
    }  # fmt: skip
    kernel = ranged("kernel", "ncclDevKernel", 10, 5, pid=1, tid=20, args=args)
    run = written(tmp_path, ranged("cuda_runtime", "cudaLaunchKernel", 1, 1, args={"correlation": 5}), kernel)
    assert run.optional("device").row(0, named=True) == {
        "rank": 0, "pid": "7", "device": 1, "stream": "20", "index": 1, "name": "ncclDevKernel", "kind": "kernel",
        "start": 10_000, "end": 15_000, "correlation": 5, "external_id": 3, "bytes": None, "bandwidth": None,
        "grid": "[4,1,1]", "block": "[128,1,1]", "registers": 16, "shared_memory": 1024, "blocks_per_sm": 0.5,
        "warps_per_sm": 2.0, "occupancy": 0.37, "collective": "allreduce", "collective_sequence": 12, "group": "0",
        "group_ranks": "[0, 1]", "group_size": 2, "group_description": "mesh_dp", "source_rank": 3,
        "destination_rank": 4, "dtype": "Float", "in_elements": 10, "out_elements": 20, "graph_node": 9,
        "waits_for_record": None, "waits_for_stream": None,
    }  # fmt: skip


KINDS = {
    "cpu_op": ("host", "operator"),
    "Operator": ("host", "operator"),
    "user_annotation": ("host", "annotation"),
    "cuda_runtime": ("host", "runtime"),
    "Runtime": ("host", "runtime"),
    "mtia_runtime": ("host", "runtime"),
    "cuda_driver": ("host", "driver"),
    "python_function": ("host", "python"),
    "python": ("host", "python"),
    "overhead": ("host", "overhead"),
    "Trace": ("host", "other"),
    "kernel": ("device", "kernel"),
    "Kernel": ("device", "kernel"),
    "gpu_memcpy": ("device", "memcpy"),
    "Memcpy": ("device", "memcpy"),
    "gpu_memset": ("device", "memset"),
    "Memset": ("device", "memset"),
    "gpu_user_annotation": ("device", "annotation"),
    "cuda_sync": ("device", "sync"),
    "cuda_profiler_range": ("device", "other"),
    "mtia_ccp_events": ("device", "accelerator"),
}


@pytest.mark.parametrize("category", KINDS)
def test_categories_of_both_generations(tmp_path: Path, category: str) -> None:
    table, kind = KINDS[category]
    assert written(tmp_path, ranged(category, "x", 1, 1)).optional(table)["kind"].to_list() == [kind]


def test_events_that_are_no_ranges(tmp_path: Path) -> None:
    memory = {"Bytes": -64, "Device Type": 1, "Device Id": 0, "Addr": 99, "Total Allocated": 10, "Total Reserved": 20}
    run = written(
        tmp_path,
        ranged("cpu_op", "aten::add", 1, 1),
        {
            "ph": "i",
            "cat": "cpu_instant_event",
            "name": "[memory]",
            "pid": 7,
            "tid": 8,
            "ts": 2,
            "s": "t",
            "args": memory,
        },
        {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 3, "s": "g"},
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 7, "tid": 8, "ts": 4},
        {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 7, "tid": 9, "ts": 5, "bp": "e"},
        {"ph": "C", "name": "GPU 0", "pid": 7, "ts": 6, "args": {"Utilization": 0.5, "": 2}},
        {"ph": "C", "name": "GPU 0", "pid": 7, "ts": 7, "args": {}},
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": "thread 8 (python)"}},
    )
    assert run.optional("memory").drop("rank").rows() == [("7", "8", 1, 2_000, 1, 0, -64, 99, 10, 20, None, None)]
    assert run.optional("instants").drop("rank").rows() == [("", 2, "Record Window End", 3_000)]
    assert run.optional("flows").drop("rank").rows() == [
        ("7", "8", 3, 4_000, 1, "fwdbwd", True),
        ("7", "9", 4, 5_000, 1, "fwdbwd", False),
    ]
    assert run.optional("counters").drop("rank").rows() == [
        ("7", 5, "GPU 0 Utilization", 6_000, 0.5),
        ("7", 5, "GPU 0", 6_000, 2.0),
    ]
    assert run.optional("threads").drop("rank").rows() == [("7", "8", "thread 8 (python)")]
    assert run.optional("skipped").select("reason", "count").rows() == [("counter without a value: left out", 1)]


def test_header(tmp_path: Path) -> None:
    properties = {
        "id": 2, "name": "NVIDIA H100", "totalGlobalMem": 85, "computeMajor": 9, "computeMinor": 0, "numSms": 132,
        "maxThreadsPerMultiprocessor": 2048, "warpSize": 32,
    }  # fmt: skip
    run = written(
        tmp_path, ranged("cpu_op", "x", 1, 1), deviceProperties=[properties, {"id": 0, "name": " "}, {"name": "no id"}],
        distributedInfo={"rank": "3", "world_size": "8", "backend": "nccl"}, host_name="n0", with_stack=1,
        cuda_runtime_version=12080, traceName="a.json",
    )  # fmt: skip
    assert run.optional("devices").rows() == [
        (3, 2, "NVIDIA H100", 85, "9.0", 132, 2048, 32),
        (3, 0, None, None, None, None, None, None),
    ]
    process = run.optional("processes").row(0, named=True)
    assert (process["rank"], process["rank_source"], process["world_size"]) == (3, "trace", 8)
    assert (process["pid"], process["host"], process["framework"], process["backend"]) == ("7", "n0", "torch", "nccl")
    meta = dict(run.optional("meta").select("key", "value").rows())
    assert meta["with_stack"] == "1"
    assert meta["cuda_runtime_version"] == "12080"
    assert meta["traceName"] == "a.json"
    assert json.loads(meta["distributedInfo"]) == {"rank": "3", "world_size": "8", "backend": "nccl"}
    assert run.optional("host")["rank"].to_list() == [3]
    assert run.optional("skipped")["reason"].to_list() == ["device without an id: not read"]


@pytest.mark.parametrize(
    ("name", "info", "expected"),
    [
        ("a.json", {"rank": 0}, (0, "trace")),
        ("rank-34.Jul_15.1074.pt.trace.json", {}, (34, "file name")),
        ("bs_32_rank0.json", {}, (0, "file name")),
        ("graph_capture_rank_12.177.pt.trace.json", {"rank": -1}, (12, "file name")),
        ("frank2.json", {}, (0, "assumed")),
        ("rank_not_found.json", {"backend": "nccl"}, (0, "assumed")),
        ("rank_7.json", {"rank": 2}, (2, "trace")),
    ],
)
def test_rank(tmp_path: Path, name: str, info: Event, expected: tuple[int, str]) -> None:
    run = written(tmp_path, ranged("cpu_op", "x", 1, 1), name=name, distributedInfo=info)
    assert run.optional("processes").select("rank", "rank_source").row(0) == expected


def test_long_trace_with_a_late_kernel_is_no_outlier(tmp_path: Path) -> None:
    hour = 3_600e6
    run = written(
        tmp_path, *(ranged("cpu_op", "x", at * hour, 1) for at in range(30)), ranged("kernel", "k", 40 * hour, 1)
    )
    assert len(run.optional("host")) == 30
    assert len(run.optional("device")) == 1
    assert run.optional("skipped").is_empty()


def test_two_halves_a_day_apart_are_both_kept(tmp_path: Path) -> None:
    run = written(tmp_path, ranged("cpu_op", "a", 0, 1), ranged("cpu_op", "b", 2 * 86_400e6, 1))
    assert run.optional("host")["name"].to_list() == ["a", "b"]


def test_negative_blocks_per_sm_are_an_overflow(tmp_path: Path) -> None:
    run = written(tmp_path, ranged("kernel", "k", 1, 1, args={"blocks per SM": -3.5}))
    assert run.optional("device")["blocks_per_sm"].to_list() == [None]
    assert run.optional("skipped")["reason"].to_list() == ["argument 'blocks per SM' that overflowed: read as missing"]


def test_paddle_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="Paddle"):
        written(tmp_path, ranged("Operator", "x", 1, 1), span_index="0", ExtraInfo={})


BROKEN = {
    "two broken events side by side": ('{"ph":"X","name":"a"b"}, {"ph":"X","name":"c"d"}', 2, 0),
    "bare words": ('{"ph":"X","name":"a","ts":1,"dur":1,"pid":nan,"args":{"stream":-inf,"bytes":N/A}}', 0, 1),
    "invalid escape": ('{"ph":"X","name":"C:\\Users\\x","ts":1,"dur":1}', 0, 1),
    "number too long for Python": ('{"ph":"X","name":"a","ts":1,"dur":1,"pid":' + "9" * 5000 + "}", 1, 0),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_event_costs_only_itself(tmp_path: Path, name: str) -> None:
    text, lost, kept = BROKEN[name]
    path = tmp_path / "a.json"
    good = json.dumps(ranged("cpu_op", "good", 1, 1, args={"list": [{"name": "nested"}, {"name": "n"}]}))
    path.write_text(f'{{"traceEvents": [{good}, {text}, {good}, {good}], "traceName": "t"}}')
    run = read(path)
    names = run.optional("host")["name"].to_list()
    assert names.count("good") == 3
    assert len(names) == 3 + kept
    meta = dict(run.optional("meta").select("key", "value").rows())
    assert (meta["events_left_out"], meta["traceName"]) == (str(lost), "t")


def test_windows_path_is_repaired(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"traceEvents": [{"ph":"X","name":"C:\\Users\\x","ts":1,"dur":1}]}')
    assert read(path).optional("host")["name"].to_list() == ["C:\\Users\\x"]


def test_broken_header_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{\n"schemaVersion": 1,\n"note": "a "quoted" b",\n"host_name": "n0",\n"traceEvents": [\n]\n}\n')
    run = read(path)
    assert run.optional("processes")["host"].to_list() == ["n0"]
    assert "header entry that is not valid JSON: not read" in run.optional("skipped")["reason"].to_list()


@pytest.mark.parametrize("position", [0.2, 0.5, 0.9])
def test_damaged_gzip_is_read_as_far_as_it_goes(tmp_path: Path, position: float) -> None:
    events = [ranged("cpu_op", f"op {number * 7919 % 1000}", number, 1) for number in range(2_000)]
    packed = bytearray(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    at = int(len(packed) * position)
    packed[at : at + 8] = b"\xff" * 8
    path = tmp_path / "a.json.gz"
    path.write_bytes(packed)
    run = read(path)
    assert 0 < len(run.optional("host")) <= 2_000
    assert any("gzip" in reason for reason in run.optional("skipped")["reason"])


def test_trace_that_torch_writes_now(tmp_path: Path) -> None:
    before = time.time_ns()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
    ) as profiler:
        for step in range(3):
            with torch.profiler.record_function(f"ProfilerStep#{step}"):
                weight = torch.ones(8, 8, requires_grad=True)
                (weight @ weight).sum().backward()  # type: ignore[no-untyped-call]
    after = time.time_ns()
    path = tmp_path / "a.pt.trace.json"
    profiler.export_chrome_trace(str(path))
    raw = json.loads(path.read_text())["traceEvents"]
    run = read(path)
    host = run.optional("host")
    assert run.optional("skipped").is_empty()
    assert len(host) == sum(event["ph"] == "X" for event in raw)
    steps = host.filter(pl.col("name").str.starts_with("ProfilerStep#")).sort("start")
    assert steps["name"].to_list() == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
    assert before < steps["start"][0] < steps["end"][2] < after
    products = host.filter((pl.col("name") == "aten::mm") & pl.col("sequence").is_null().not_())
    assert products["input_dims"].to_list() == ["[[8,8],[8,8]]"] * len(products)
    assert len(products) >= 3
    assert {"operator", "annotation", "python"} <= set(host["kind"])
    assert int(run.optional("memory")["bytes"].max() or 0) >= 8 * 8 * 4  # type: ignore[arg-type]
    assert set(run.optional("flows")["kind"]) == {"fwdbwd"}


def test_truth_is_no_number(tmp_path: Path) -> None:
    events = [ranged("cpu_op", "a", 1, 1, args={"correlation": value}) for value in (True, 5)]
    run = written(tmp_path, *events)
    assert run.optional("host")["correlation"].to_list() == [None, 5]
    assert run.optional("skipped").select("reason", "count").rows() == [
        ("argument 'correlation' that is not a number: read as missing", 1)
    ]
