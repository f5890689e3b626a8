"""One real training job under `stepscope run`, and every way to look at what it recorded."""

import io
import json
import os
import pty
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema
import polars as pl
import pytest
from click.testing import CliRunner

from stepscope.cli.main import COMMANDS
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Analysis
from stepscope.core.schema import TABLES

from ..command import command, stepscope

pytestmark = pytest.mark.slow

SCRIPT = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, i):
        time.sleep(0.005)
        return torch.randn(8)

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(Slow(), batch_size=4):
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
print("trained", flush=True)
"""
ANALYSES = PluginGroup("analyses", Analysis)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder that the job was run in, with the recording in `r`, and what the command printed."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "train.py").write_text(SCRIPT)
    done = stepscope("run", "--progress", "lines", "--out", "r", "--", sys.executable, "train.py", cwd=folder)
    return folder, done


def test_the_verdict_and_the_culprit_are_printed(job: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    _, done = job
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "Data-loading bound: " in done.stderr
    assert "train.py:12 in __getitem__" in done.stderr
    assert re.search(r"▶ 12 +time\.sleep\(0\.005\)", done.stderr)
    assert "num_workers=" in done.stderr
    assert "stepscope report r --full\nstepscope view r\n\nstepscope: recorded in r\n" in done.stderr
    assert "not recorded" not in done.stderr


def test_the_report_in_every_format(job: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, _ = job
    for name, form in (("o.json", "json"), ("o.html", "html"), ("o.md", "markdown"), ("o.txt", "text")):
        done = stepscope("report", "r", "-o", name, cwd=folder)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert (folder / name).read_text() == stepscope("report", "r", "--format", form, cwd=folder).stdout
    document = json.loads((folder / "o.json").read_text())
    schema = json.loads(files("stepscope.render").joinpath("report.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["verdict"]["bound"] == "input"
    assert document["run"]["command"] == [sys.executable, "train.py"]
    assert document["run"]["ranks"] == [0]
    assert document["run"]["devices"] == []
    assert document["run"]["steps"] == 80
    assert document["run"]["framework"].startswith("torch ")
    times = document["run"]["step_ns"]
    assert 20_000_000 < times["p10"] <= times["median"] <= times["p90"]
    rules = ("input-bound", "slow-storage")  # by how the machine was used meanwhile, which may be a finding of its own
    finding = next(finding for finding in document["findings"] if finding["rule"] in rules)
    assert finding["cause"] == "data-reading"
    place = finding["where"][0]
    assert (place["file"], place["line"]) == (str(folder / "train.py"), 12)
    assert (place["symbol"], place["text"]) == ("__getitem__", "time.sleep(0.005)")
    assert 0 < finding["gain"]["low_ns"] <= finding["gain"]["high_ns"] <= times["mean"]
    for evidence in finding["evidence"]:
        assert evidence["source"].replace("_", "-") in ANALYSES.names() or evidence["source"] in TABLES
        assert "-" not in evidence["source"], "the name that `stepscope show` lists"


@pytest.mark.parametrize("name", [name.replace("-", "_") for name in ANALYSES.names()])
def test_show_prints_each_analysis_or_says_what_is_missing(
    job: tuple[Path, subprocess.CompletedProcess[str]], name: str
) -> None:
    folder, _ = job
    done = CliRunner().invoke(COMMANDS, ["show", name, str(folder / "r"), "--format", "json"])
    if done.exit_code == 2:
        assert done.stderr.startswith("stepscope: no ")
        assert "stepscope run" in done.stderr
        return
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert document["analysis"] == name
    declared = ANALYSES.get(name.replace("_", "-")).columns
    assert [(column["name"], column["unit"]) for column in document["columns"]] == [(c.name, c.unit) for c in declared]
    assert all(list(row) == [c.name for c in declared] for row in document["rows"])


def test_show_in_every_format_has_the_same_steps(job: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, _ = job
    rows = json.loads(stepscope("show", "steps", "r", "--format", "json", cwd=folder).stdout)["rows"]
    assert len(rows) == 80
    assert all(
        row["data_wait"] + row["forward"] + row["backward"] + row["optimizer"] + row["other"] == row["duration"]
        for row in rows
    )
    parquet = stepscope("show", "steps", "r", "-o", "steps.parquet", cwd=folder)
    assert parquet.returncode == 0
    assert pl.read_parquet(folder / "steps.parquet").to_dicts() == rows
    csv = pl.read_csv(io.StringIO(stepscope("show", "steps", "r", "--format", "csv", cwd=folder).stdout))
    assert csv["duration"].to_list() == [row["duration"] for row in rows]
    markdown = stepscope("show", "steps", "r", "--format", "markdown", cwd=folder).stdout
    assert len(markdown.splitlines()) == 82
    table = stepscope("show", "steps", "r", "--rows", "5", cwd=folder)
    assert table.stdout.count("\n   4 ") == 1
    columns, more = table.stderr.splitlines()
    # How many fit depends on how long the numbers are.
    assert re.fullmatch(r"\d more columns with --columns all: rank, start, end, micro_batches, clock, .+", columns)
    assert more == "75 more rows: add --rows 0, or --format csv"


def test_progress_appears_on_a_terminal_and_leaves_the_jobs_output_alone(tmp_path: Path) -> None:
    script = SCRIPT.replace("return 320", "return 1200").replace(
        "print(", "print('partial', end='', flush=True) or print("
    )
    (tmp_path / "train.py").write_text(script)
    leader, follower = pty.openpty()
    words = command("run", "--no-report", "--trace", "none", "--out", "r", "--", sys.executable, "train.py")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=follower, text=True, cwd=tmp_path) as running:
        os.close(follower)
        output, _ = running.communicate(timeout=300)
    seen = b""
    while chunk := read(leader):
        seen += chunk
    os.close(leader)
    assert output == "partialtrained\n"
    lines = [line for line in seen.decode().splitlines() if "ms/step" in line]
    assert lines
    assert lines[0].startswith("\x1b[Kstepscope: step ") or lines[0].startswith("\r\x1b[Kstepscope: step ")
    assert "data wait" in lines[0]


def read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end of the terminal is closed
        return b""
