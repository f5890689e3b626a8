"""A trace that is cut off is judged by its whole steps only, and says how much of it is left."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.analyses.lib.cut_traces import NO_WHOLE_STEP, cuts
from stepscope.analyses.steps.steps import steps
from stepscope.core.report import Text
from stepscope.core.run import Run
from stepscope.report.assemble import assemble
from stepscope.storage import open_run

US = 1000


def event(cat: str, name: str, ts: float, dur: float, **args: object) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def cut_after(folder: Path, launches: int) -> Run:
    """Four steps of 10 ms, then their launches and kernels in the order of time, of which so many were written."""
    events = [event("user_annotation", f"ProfilerStep#{step}", step * 10_000, 10_000) for step in range(4)]
    events += [event("cpu_op", "aten::mm", step * 10_000 + 100, 9_000) for step in range(4)]
    for launch in range(40):
        start = launch * 1000 + 200
        events += [
            event("cuda_runtime", "cudaLaunchKernel", start, 10, correlation=launch + 1),
            event("kernel", "gemm", start + 20, 900, device=0, stream=7, correlation=launch + 1),
        ]
    text = json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A"}], "traceEvents": events})
    path = folder / "a.pt.trace.json"
    path.write_text(text[: text.find(f'"correlation": {launches + 1}}}')])
    return open_run(path)


def test_steps_behind_the_cut_are_not_judged(tmp_path: Path) -> None:
    run = cut_after(tmp_path, 25)
    (cut,) = cuts(run)
    assert (cut.whole, cut.steps, cut.cut_from) == (2, 4, 20_000 * US)
    assert steps(run)["step"].to_list() == [0, 1]
    report = assemble(run)
    assert report.verdict.bound == "device"
    assert report.verdict.step_ns == pytest.approx(10_000 * US, rel=0.03)
    told = [block.text for block in report.parts[0].blocks if isinstance(block, Text)]
    assert any("is complete, with" in text for text in told)


def test_without_a_whole_step_there_is_no_verdict_and_no_gain(tmp_path: Path) -> None:
    report = assemble(cut_after(tmp_path, 5))
    assert report.verdict.bound == "unknown"
    assert "cut off" in report.verdict.why_unknown
    assert not report.findings
    assert {unchecked.missing for unchecked in report.unchecked} == {NO_WHOLE_STEP}


def test_a_trace_without_any_work_of_its_device_is_not_one_of_a_cpu(tmp_path: Path) -> None:
    assert assemble(cut_after(tmp_path, 0)).verdict.bound == "unknown"
