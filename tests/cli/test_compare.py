"""`stepscope compare` as a person uses it: real processes, real files, and traces of real jobs."""

import json
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from ..command import printed, stepscope

SCHEMA = json.loads(files("stepscope.compare").joinpath("comparison.schema.json").read_text(encoding="utf-8"))

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1}

SCRIPT = """
import sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    def __len__(self):
        return 240

    def __getitem__(self, i):
        time.sleep(float(sys.argv[1]))
        return torch.randn(64)

torch.manual_seed(0)
model = nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(Samples(), batch_size=4):
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
"""


def trace(path: Path, step_us: int, steps: int = 15) -> Path:
    """A trace of steps with one operator each."""
    events = []
    for step in range(steps):
        start = step * step_us + step % 3
        mark = {"name": f"ProfilerStep#{step}", "cat": "user_annotation", "ts": start, "dur": step_us - 3}
        events += [{**EVENT, **mark}, {**EVENT, "ts": start + 1, "dur": step_us // 2}]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


@pytest.mark.slow
def test_two_traces_in_all_formats(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a.json", 1000), trace(tmp_path / "b.json", 500)
    done = stepscope("compare", a, b)
    assert done.returncode == 0
    assert done.stdout.startswith("B is 2")
    document = json.loads(stepscope("compare", a, b, "--format", "json").stdout)
    assert document["verdict"]["kind"] == "faster"
    assert stepscope("compare", a, b, "--format", "markdown").stdout.startswith("### stepscope comparison")
    assert stepscope("compare", a, b, "-o", tmp_path / "page.html").stdout == ""
    assert "<noscript><h1>B is 2" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_one_path_twice_is_allowed_and_said(tmp_path: Path) -> None:
    a = trace(tmp_path / "a.json", 1000)
    done = stepscope("compare", a, a)
    assert done.returncode == 0
    assert done.stdout.startswith("No difference: A and B are the same recording, 997 µs per step.\n")
    assert "Inconclusive" not in done.stdout
    few = trace(tmp_path / "few.json", 1000, steps=1)
    assert stepscope("compare", few, few).stdout.startswith("No difference: A and B are the same recording")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "x"], "compare: missing argument 'B'"),
        (["compare", "/nowhere", "/nowhere"], "/nowhere: there is no such file or folder"),
        (["compare", "a", "b", "-o", "x.pdf"], "x.pdf: .pdf is none of the formats"),
        (["compare", "", "b"], "PATH: is empty"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(words: list[str], message: str) -> None:
    done = stepscope(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_two_real_jobs_differ_by_the_time_that_one_of_them_loads(tmp_path: Path) -> None:
    """A sleeps 40 ms for each batch and B does not: whatever else runs on this machine, loading explains the change."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    for name, seconds in (("a", "0.01"), ("b", "0")):
        printed("run", "--quiet", "--out", tmp_path / name, "--", sys.executable, script, seconds)
    document = json.loads(printed("compare", tmp_path / "a", tmp_path / "b", "--format", "json"))
    jsonschema.validate(document, SCHEMA)
    assert document["verdict"]["kind"] == "faster" or document["verdict"]["because"][0]["cause"] in ("cores", "trend")
    rows = {row["name"]: row for row in document["phases"]["rows"]}
    assert rows["data_wait"]["difference_ns"] < -30_000_000
    assert sum(row["difference_ns"] for row in rows.values()) == document["phases"]["b_ns"] - document["phases"]["a_ns"]
    assert [setting["name"] for setting in document["settings"]] == ["command"]
