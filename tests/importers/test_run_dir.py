"""Run folders: written here byte by byte as the format says, in every state of damage."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.core.errors import BadInput
from stepscope.storage import open_run

from ..thoroughness import tries
from .run_files import (
    DEVICE_STEP,
    END,
    EPOCH,
    LINE,
    MONOTONIC,
    RUN,
    STEP,
    TO_EPOCH,
    json_lines,
    meta,
    records,
    step,
    told,
    write_process,
    write_run,
)

OTHER_JOB = "of another job, which shares no process group with this one: open it alone"


def test_step_row(tmp_path: Path) -> None:
    write_process(write_run(tmp_path / "run"), step(0, 1_000, 1_100, gc=5, flags=1 | 8 | 256))
    run = open_run(tmp_path / "run")
    assert run.optional("steps").row(0, named=True) == {
        "rank": 0, "pid": "4711", "step": 0, "start": TO_EPOCH + 1_000, "end": TO_EPOCH + 1_100, "data_wait": 10,
        "forward": 1, "backward": 2, "optimizer": 3, "other": 84, "evaluation_wait": 0, "gc": 5, "samples": 8,
        "micro_batches": 1, "device_duration": None, "clock": "host", "tags": ["traced", "epoch-start", "closure"],
            "weight": None,
    }  # fmt: skip
    assert run.optional("processes").drop("source").row(0, named=True) == {
        "rank": 0, "pid": "4711", "rank_source": "RANK", "world_size": 2, "host": "n0", "framework": "torch 2.13.0",
        "python": "3.12.1", "backend": None, "threads": None, "affinity": None, "matmul_precision": None,
        "probe": "compiled", "probe_cost": 900,
    }  # fmt: skip
    assert told(run) == {}
    assert meta(run)["command"] == '["python", "train.py"]'
    assert meta(run)["state"] == "ended"


def test_what_was_not_observed_is_null(tmp_path: Path) -> None:
    unknown = 32 | 128
    folder = write_process(write_run(tmp_path / "run"), step(0, 1, 101, wait=-1, samples=-(1 << 50) + 3, flags=unknown))
    (folder / "device_steps.bin").write_bytes(records(b"STEPSCOPE-DEVIC1", 16, DEVICE_STEP.pack(0, 77)))
    row = open_run(tmp_path / "run").optional("steps").row(0, named=True)
    assert (row["data_wait"], row["samples"], row["other"], row["device_duration"]) == (None, None, 94, 77)
    assert (row["clock"], row["tags"]) == ("host-backward", ["no-data-wait", "ended-by-backward"])


def test_longer_records_of_a_later_version_are_read(tmp_path: Path) -> None:
    folder = write_process(write_run(tmp_path / "run"))
    rows = [step(number, 1, 100) + b"\xff" * 8 for number in range(2)]
    (folder / "steps.bin").write_bytes(records(b"STEPSCOPE-STEPS1", STEP.size + 8, *rows))
    assert open_run(tmp_path / "run").optional("steps")["step"].to_list() == [0, 1]


def test_sampled_lines(tmp_path: Path) -> None:
    folder = write_process(write_run(tmp_path / "run"), step(0, 1, 100))
    rows = [LINE.pack(50, 0, 20_000, 3, 2, 1), LINE.pack(60, 0, 20_000, 9, 1, 0)]
    (folder / "lines.bin").write_bytes(records(b"STEPSCOPE-LINES1", LINE.size, *rows) + b"part")
    frame = {"id": 3, "frames": [["/t.py", 9, "main"], ["/m.py", 41, "forward"]], "call": ["torch/nn/f.py", 5, "relu"],
             "texts": ["loss(forward(x))", "x = relu(x)"],
             "leaf": ["torch/x.py", 1, "y"], "text": "x = relu(x)", "segment": "relu(x)",
             "between": ["lib/a.py A.run", 7]}  # fmt: skip
    (folder / "frames.jsonl").write_text(json_lines(frame) + '{"id": 9, "frames": [["/t.py"')
    run = open_run(tmp_path / "run")
    first, second = run.optional("stacks").rows(named=True)
    assert first == {
        "rank": 0, "pid": "4711", "time": TO_EPOCH + 50, "step": 0, "phase": "forward", "weight": 20_000,
        "collector": True, "file": "/m.py", "line": 41, "function": "forward", "text": "x = relu(x)",
        "expression": "relu(x)", "call": "torch/nn/f.py:5 relu", "leaf": "torch/x.py:1 y",
        "between": ["lib/a.py A.run"], "frames": ["/t.py:9 main", "/m.py:41 forward"],
        "texts": ["loss(forward(x))", "x = relu(x)"],
    }  # fmt: skip
    assert (second["phase"], second["collector"], second["file"]) == ("data_wait", False, None)
    assert told(run) == {
        "broken line of frames.jsonl: left out": 1,
        "sample whose frames were not written: kept without its line": 1,
    }


def test_facts(tmp_path: Path) -> None:
    folder = write_process(write_run(tmp_path / "run"), step(0, 1, 100))
    loader = {"kind": "loader", "id": 0, "dataset": "m.D", "dataset_file": "/m.py", "dataset_line": 3, "batch_size": 8,
              "num_workers": 2, "pin_memory": False, "prefetch_factor": 2, "persistent_workers": True,
              "made_file": "/t.py", "made_line": 7,
              "collate": "m.c", "collate_file": "/m.py", "collate_line": 9, "shuffle": True}  # fmt: skip
    device = {"index": 1, "name": "H100", "total_memory": 80, "capability": "9.0", "sms": 132}
    torch = {"kind": "torch", "threads": 4, "cuda": "12.8", "devices": [device], "matmul_precision": "high"}
    optimizer = {"kind": "optimizer", "class": "Adam", "module": "torch.optim.adam", "groups": 1, "parameters": 12,
                 "elements": 1234, "foreach": None, "fused": True}  # fmt: skip
    rows: list[dict[str, Any]] = [
        {**loader, "shards": False}, {**loader, "id": 1, "batch_size": None}, {"kind": "train_loader", "id": 0},
        optimizer, torch, {"kind": "distributed", "backend": "gloo", "world_size": 2}, {"kind": "surprise", "x": 1},
    ]  # fmt: skip
    (folder / "facts.jsonl").write_text(json_lines(*rows))
    run = open_run(tmp_path / "run")
    assert run.optional("loaders").drop("rank", "pid").rows() == [
        (0, True, "m.D", "/m.py", 3, "m.c", "/m.py", 9, 8, 2, 2, False, True, False, "/t.py", 7, None),
        (1, False, "m.D", "/m.py", 3, "m.c", "/m.py", 9, None, 2, 2, False, True, None, "/t.py", 7, None),
    ]
    assert run.optional("optimizers").drop("rank", "pid").rows() == [
        ("Adam", "torch.optim.adam", 1, 12, 1234, None, None, True)
    ]
    assert run.optional("devices").rows() == [(0, 1, "H100", 80, "9.0", 132, None, None)]
    processes = run.optional("processes").select("backend", "threads", "matmul_precision", "world_size")
    assert processes.row(0) == ("gloo", 4, "high", 2)
    assert json.loads(meta(run)["surprise"]) == {"kind": "surprise", "x": 1}
    assert json.loads(meta(run)["loader 0"])["shuffle"] is True


def test_system_samples(tmp_path: Path) -> None:
    write_process(write_run(tmp_path / "run"), step(0, 1, 100))
    card = {"index": 0, "name": "H100", "utilization_ratio": 0.5, "memory_used_bytes": 7, "power_w": None}
    rows: list[dict[str, Any]] = [
        {"epoch_ns": 10, "system_cpu_ratio": 0.25, "job_cpu_ratio": 1.5, "job_rss_bytes": 99, "gpus": [card]},
        {"x": 1},
        {
            "epoch_ns": 20,
            "core_wait_ratio": {"4711": 0.125, "4712": 0.5},
            "page_faults": {"4711": 40, "4712": 7},
            "kernel_cores": {"4711": 0.75},
        },
        {"epoch_ns": 30, "system_cpu_ratio": 0.75, "cores": 4, "job_cpu_ratio": 1.0},
    ]
    (tmp_path / "run" / "system.jsonl").write_text(json_lines(*rows))
    run = open_run(tmp_path / "run")
    assert run.optional("system").rows() == [
        (10, None, "system CPU", 0.25, "ratio"),
        (10, None, "job CPU", 1.5, "cores"),
        (10, None, "job memory", 99.0, "bytes"),
        (10, None, "GPU 0 utilization", 0.5, "ratio"),
        (10, None, "GPU 0 memory", 7.0, "bytes"),
        (20, 0, "core wait", 0.125, "ratio"),
        (20, 0, "page faults", 40.0, "per second"),
        (20, 0, "kernel CPU", 0.75, "cores"),
        (20, None, "helper core wait", 0.5, "cores"),
        (30, None, "system CPU", 0.75, "ratio"),
        (30, None, "job CPU", 1.0, "cores"),
        (30, None, "other CPU", 2.0, "cores"),
    ]
    assert told(run) == {"sample of the system without a time: left out": 1}


def test_a_look_that_was_kept_is_a_traced_step(tmp_path: Path) -> None:
    steps = b"".join(step(number, 100 * number + 1, 100 * number + 100) for number in range(4))
    folder = write_process(write_run(tmp_path / "run"), steps)
    windows = [
        {"window": 0, "status": "recorded", "first_step": 1, "last_step": 1, "trace": "window-000.pt.trace.json"},
        {"window": 1, "status": "abandoned", "first_step": 2, "last_step": 3, "trace": None},
    ]
    (folder / "windows.jsonl").write_text(json_lines(*windows))
    assert open_run(tmp_path / "run").optional("steps").select("step", "tags").rows() == [
        (0, []),
        (1, ["traced"]),
        (2, []),
        (3, []),
    ]


def test_traces_of_windows_get_the_rank_and_keep_their_step_numbers(tmp_path: Path) -> None:
    folder = write_process(write_run(tmp_path / "run"), step(0, 1, 100), rank=3)
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 2, "dur": 1}
    for number in (0, 1):
        marker = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{10 + number}", "pid": 4711, "tid": 1,
                  "ts": number, "dur": 1}  # fmt: skip
        content = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "G"}], "baseTimeNanoseconds": EPOCH,
                   "traceEvents": [marker, kernel]}  # fmt: skip
        (folder / f"window-00{number}.pt.trace.json").write_text(json.dumps(content))
    window = {"window": 0, "status": "recorded", "reason": None, "first_step": 10, "last_step": 10, "start_cost_ns": 1,
              "stop_cost_ns": 2, "export_cost_ns": 3, "trace": "window-000.pt.trace.json"}  # fmt: skip
    others = [
        {**window, "window": 1, "trace": "window-001.pt.trace.json"},
        {**window, "window": 2, "trace": "window-002.pt.trace.json"},
        {"window": 3, "status": "stood back", "reason": "the script profiles itself", "trace": None},
    ]
    (folder / "windows.jsonl").write_text(json_lines(window, *others))
    (folder / "facts.jsonl").write_text(json_lines({"kind": "torch", "devices": [{"index": 0, "name": "G"}]}))
    run = open_run(tmp_path / "run")
    assert run.optional("host").select("rank", "pid", "index", "name", "start").rows() == [
        (3, "4711", 0, "ProfilerStep#10", EPOCH),
        (3, "4711", 2, "ProfilerStep#11", EPOCH + 1_000),
    ]
    assert run.optional("device").select("rank", "pid", "index").rows() == [(3, "4711", 1), (3, "4711", 3)]
    assert run.optional("windows").select("window", "status", "cost").rows() == [
        (0, "recorded", 6),
        (1, "recorded", 6),
        (2, "recorded", 6),
        (3, "stood back", None),
    ]
    assert len(run.optional("processes")) == len(run.optional("devices")) == 1
    assert told(run) == {"trace of window 2, there is no such file or folder: not read": 1}


def test_a_second_process_of_a_rank_is_of_another_job(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run")
    late = {"epoch_ns": EPOCH + 5, "monotonic_ns": MONOTONIC}
    write_process(path, step(0, 1, 100), pid=10, clock=late)
    write_process(path, step(0, 1, 100), pid=20)
    write_process(path, step(0, 1, 100), pid=30, rank=1)
    run = open_run(path)
    assert run.optional("processes").select("rank", "pid").rows() == [(0, "20"), (1, "30")]
    assert run.optional("steps").select("rank", "pid").rows() == [(0, "20"), (1, "30")]
    assert told(run) == {OTHER_JOB: 1}
    assert meta(run)["other_job"] == str(path / "rank-00000.pid-10")


def test_processes_without_a_group_are_jobs_of_their_own_and_the_largest_is_shown(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run")
    alone: dict[str, Any] = {"rank_source": "assumed", "world_size": None}
    write_process(path, step(0, 1, 100), pid=10, **alone)
    write_process(path, step(0, 1, 100), step(1, 100, 200), pid=20, **alone)
    write_process(path, step(0, 1, 100), pid=30, rank_source="RANK", world_size=1)
    run = open_run(path)
    assert run.optional("processes").select("rank", "pid").rows() == [(0, "20")]
    assert told(run) == {OTHER_JOB: 1}, "for each of two folders"
    asked = open_run(path / "rank-00000.pid-10")
    assert asked.optional("steps").select("rank", "pid").rows() == [(0, "10")]
    others = [
        Path(place).name for key, place in asked.optional("meta").select("key", "value").rows() if key == "other_job"
    ]
    assert others == ["rank-00000.pid-20", "rank-00000.pid-30"]


def test_a_group_that_was_made_after_the_first_step_tells_the_ranks(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run")
    for rank in (0, 1):
        folder = write_process(path, step(0, 1, 100), pid=10 + rank, rank_source="assumed", world_size=None)
        (folder / "facts.jsonl").write_text(json_lines({"kind": "distributed", "rank": rank, "world_size": 2}))
    run = open_run(path)
    assert run.optional("processes").select("rank", "pid", "rank_source", "world_size").rows() == [
        (0, "10", "torch.distributed", 2),
        (1, "11", "torch.distributed", 2),
    ]
    assert not told(run)


def test_process_without_description(tmp_path: Path) -> None:
    folder = write_process(write_run(tmp_path / "run"), step(0, 1, 100), rank=2)
    (folder / "process.json").write_text('{"rank": 2, "pi')
    run = open_run(tmp_path / "run")
    assert run.optional("processes").select("rank", "pid", "rank_source").row(0) == (2, "4711", "file name")
    assert len(run.optional("steps")) == 1
    assert len(told(run)) == 2


def test_notes_are_shown_once(tmp_path: Path) -> None:
    repeated = {"what": "trace of rank-00000.pid-4711", "why": "disk full"}
    path = write_run(
        tmp_path / "run", end={**END, "not_recorded": [repeated, {"what": "the system", "why": "no /proc"}]}
    )
    folder = write_process(path, step(0, 1, 100))
    note = json.dumps({"what": "trace", "why": "disk full", "epoch_ns": 1}) + "\n"
    (folder / "notes.jsonl").write_text(note + " " * (4095 - len(note)) + "\n")
    (path / "notes.jsonl").write_text(json_lines({"what": "all steps of process 9", "why": "read-only"}))
    assert told(open_run(path)) == {
        "trace not recorded: disk full": 1,
        "all steps of process 9 not recorded: read-only": 1,
        "the system not recorded: no /proc": 1,
    }


def test_newer_format_asks_for_an_upgrade(tmp_path: Path) -> None:
    write_run(tmp_path / "run", run={**RUN, "version": 2})
    with pytest.raises(BadInput, match="format version 2; this stepscope reads version 1") as caught:
        open_run(tmp_path / "run")
    assert "pip install --upgrade stepscope" in caught.value.next_step


def test_foreign_run_json_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "run", run={"format": "wandb"})
    with pytest.raises(BadInput, match=r"run\.json: not a run of stepscope"):
        open_run(tmp_path / "run")


def test_run_json_may_be_missing_or_broken(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", run=None)
    write_process(path, step(0, 1, 100))
    assert told(open_run(path)) == {"no run.json: command and options are not known": 1}
    (path / "run.json").write_text('{"format": "stepsc')
    assert len(open_run(path).optional("steps")) == 1


WITHOUT_STEPS: dict[str, tuple[dict[str, Any], dict[str, Any] | None, list[dict[str, Any]], str]] = {
    "running": ({}, None, [], "still running"),
    "crashed": ({"exit_code": 1}, END, [], "exit code 1 before its first training step"),
    "killed": ({"exit_code": None, "signal": 9}, END, [], "signal 9 before its first training step"),
    "no torch": ({}, END, [], "no Python process of the job imported torch"),
    "no training": (
        {}, END, [{"pid": 5, "argv": ["infer.py", "--fast"]}, {"pid": 6, "argv": []}],
        r"2 processes imported torch \(infer.py --fast, pid 6\), but none made a training step",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_STEPS)
def test_run_without_steps_opens_and_says_why(tmp_path: Path, name: str) -> None:
    changes, end, processes, why = WITHOUT_STEPS[name]
    write_run(tmp_path / "run", end=None if end is None else {**end, **changes})
    (tmp_path / "run" / "processes.jsonl").write_text(json_lines(*processes))
    run = open_run(tmp_path / "run")
    assert run.optional("steps").is_empty()
    sentence = run.optional("meta").filter(pl.col("key") == "no_steps", pl.col("value").str.contains(why))
    assert len(sentence) == 1
    assert "Next: " in sentence["value"][0]
    assert "`stepscope " in sentence["value"][0]


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ({"loaders": 5}, "read batches, but made no backward call .* torch.func"),
        ({"backwards": 2}, "2 backward calls, and no optimizer of torch.optim"),
        ({"backwards": 9, "has_optimizer": True}, "9 backward calls, but no optimizer of torch.optim made a step"),
        ({"optimizer_steps": 1}, "1 optimizer step without a backward"),
    ],
)
def test_a_process_that_did_some_of_what_a_training_does_is_the_reason(
    tmp_path: Path, seen: dict[str, Any], why: str
) -> None:
    write_run(tmp_path / "run", end={**END, "exit_code": 0})
    (tmp_path / "run" / "processes.jsonl").write_text(json_lines({"pid": 5, "argv": ["train.py"]}))
    (tmp_path / "run" / "stepless.jsonl").write_text(json_lines({"pid": 4}, {"pid": 5, **seen}))
    sentence = open_run(tmp_path / "run").optional("meta").filter(pl.col("key") == "no_steps")["value"][0]
    assert re.search(f"process 5 .*{why}", sentence)
    assert "call `stepscope.step()` where a step ends" in sentence


json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.text(max_size=3), st.sampled_from([0, 1, 2**31])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["id", "index", "a"]), inner)),
    max_leaves=4,
)
KINDS = ("loader", "train_loader", "optimizer", "torch", "distributed")
FILES = {
    "run.json": ("command", "cwd", "cores", "options"),
    "end.json": ("exit_code", "signal", "not_recorded"),
    "processes.jsonl": ("pid", "argv"),
    "system.jsonl": ("epoch_ns", "system_cpu_ratio", "job_rss_bytes", "gpus"),
    "process.json": ("rank", "rank_source", "world_size", "pid", "clock", "probe", "probe_step_ns", "torch", "argv"),
    "facts.jsonl": (
        "kind",
        "id",
        "dataset",
        "batch_size",
        "pin_memory",
        "class",
        "groups",
        "fused",
        "threads",
        "devices",
    ),
    "frames.jsonl": ("id", "frames", "texts", "call", "leaf", "text", "segment", "between"),
    "windows.jsonl": ("window", "status", "first_step", "trace", "start_cost_ns"),
    "notes.jsonl": ("what", "why"),
    "stepless.jsonl": ("pid", "loaders", "backwards", "optimizer_steps", "has_optimizer"),
}


@pytest.mark.slow
@settings(max_examples=tries(70, 1000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_values_of_any_type_are_read(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = write_run(Path(name, "run"))
        folder = write_process(path, step(0, 1, 100))
        (folder / "lines.bin").write_bytes(records(b"STEPSCOPE-LINES1", LINE.size, LINE.pack(50, 0, 20_000, 0, 2, 1)))
        for file in data.draw(st.sets(st.sampled_from(sorted(FILES)), min_size=1, max_size=3)):
            row = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(FILES[file], json_values)))
            known = {"kind": data.draw(st.sampled_from(KINDS))} if file == "facts.jsonl" else {}
            inside = file in ("process.json", "facts.jsonl", "frames.jsonl", "windows.jsonl", "notes.jsonl")
            start = RUN if file == "run.json" else {}
            ((folder if inside else path) / file).write_text(json.dumps({**start, **row, **known}) + "\n")
        run = open_run(path)
    assert run.optional("steps")["step"].to_list() == [0]
    assert len(run.optional("stacks")) == 1
    for table in run.tables.values():
        table.write_ipc(None)
