"""Damaged traces, and some that were found by hand: each ends in an answer or a refusal."""

import json
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from stepscope.analyses.lib.markers import unrecorded
from stepscope.importers.kineto.pieces import AFTER
from stepscope.importers.kineto.repair_step import step
from stepscope.storage import open_run

from .thoroughness import tries

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from fuzz_traces import run_cases, tried
from trace_damage import damaged, own_traces

pytestmark = pytest.mark.slow

CASES = tries(24, 1500)
STEP = "ProfilerStep#"


def event(cat: str, name: str, ts: object, dur: object, **more: object) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": {}, **more}


def kernel(ts: float, dur: float) -> dict[str, Any]:
    return event("kernel", "gemm", ts, dur, pid=0, tid=7, args={"device": 0, "stream": 7, "correlation": 1})


def memory(ts: float, **total: int) -> dict[str, Any]:
    told = {"Device Type": 1, "Device Id": 0, "Addr": 64, "Bytes": 4096, **total}
    return {**event("cpu_instant_event", "[memory]", ts, 0, args=told), "ph": "i"}


LAUNCH = event("cuda_runtime", "cudaLaunchKernel", 10, 3, args={"correlation": 1})
FOUND: dict[str, list[dict[str, Any]]] = {
    "no pid": [{k: v for k, v in event("cpu_op", "aten::mm", 1, 5).items() if k != "pid"},
               event("user_annotation", f"{STEP}1", 0, 100)],
    "no device": [{**kernel(50, 500), "pid": "x", "args": {}}, LAUNCH, event("user_annotation", f"{STEP}1", 0, 1000)],
    "no length": [event("cuda_runtime", "cudaMalloc", 10, 50), LAUNCH, kernel(80, 0)],
    "empty step": [event("user_annotation", f"{STEP}1", 5, 0), event("cpu_op", "aten::add", 10, 5)],
    "huge step": [event("user_annotation", f"{STEP}{10**24}", 0, 1000), LAUNCH, kernel(50, 500)],
    "steps twice": [event("user_annotation", f"{STEP}1", 0, 1000), LAUNCH, kernel(50, 500),
                    event("user_annotation", f"{STEP}1", 0, 1000, tid=2)],
    "two steps at once": [*(event("user_annotation", f"{STEP}{step}", 0, 1000) for step in (1, 2)), LAUNCH,
                          kernel(5, 9)],
    "huge line": [event("python_function", f"a.py({10**30}): f", 0, 100), event("cpu_op", "aten::mm", 1, 5)],
    "huge sizes": [event("cpu_op", "aten::mm", 1, 5,
                         args={"Input Dims": [[10**18] * 9] * 2, "Input type": ["float"] * 2})],
    "no total at first": [*(event("user_annotation", f"{STEP}{step}", 1000 * step, 1000) for step in range(5)),
                          *(memory(500 + 1000 * step, **({"Total Allocated": 4096 * step} if step else {}))
                            for step in range(5))],
    "negative": [event("user_annotation", f"{STEP}1", 0, -1000), LAUNCH, kernel(50, -500)],
}  # fmt: skip


def test_a_list_that_is_valid_after_all_is_read_on(tmp_path: Path) -> None:
    """The scanner stops at a number that is too long for it; the window then ends with a valid list."""
    assert step(b', {"ts": 1e400}]', AFTER, is_end=False, is_first=True) is None


def test_between_windows_that_overlap_is_no_time(tmp_path: Path) -> None:
    spans = ((1, 0, 4000), (5, 1000, 1000), (9, 9000, 4000))
    marks = [event("user_annotation", f"{STEP}{number}", start, length) for number, start, length in spans]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*marks, event("cpu_op", "aten::mm", 1, 5)]}))
    between = unrecorded(open_run(path, use_cache=False), 0)
    assert (between / 1000).tolist() == [[4000, 9000]]


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCOPE_RAISE", "1")
    path = tmp_path / "a.json"
    path.write_text(
        json.dumps(
            {"schemaVersion": 1, "deviceProperties": [{"id": 0, "totalGlobalMem": 1 << 33}], "traceEvents": FOUND[name]}
        )
    )
    outcome = tried(path)
    assert not outcome.refused
    assert outcome.failures == []


def test_a_seed_gives_the_same_damage_again() -> None:
    for _, trace in own_traces():
        assert damaged(trace, random.Random(7)) == damaged(trace, random.Random(7))


def test_damaged_traces_end_in_an_answer_or_a_refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEPSCOPE_RAISE", "1")
    monkeypatch.setenv("STEPSCOPE_CORPUS", str(tmp_path))  # the traces of the tool itself: the same on every machine
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counts = run_cases(0, CASES, seed=1)
    assert {what: count for what, count in counts.items() if what.startswith("!")} == {}
    assert counts["cases"] == CASES
    assert counts["refused"] < CASES // 2  # most of the damage leaves something to read
