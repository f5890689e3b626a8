"""`stepscope predict loader` of real training with real workers."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from stepscope.cli import predict
from stepscope.cli.main import COMMANDS

from ..command import command, stepscope
from ..models.recorded_loading import MS, recorded

SCRIPT = """
import sys
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Far(Dataset):
    def __len__(self):
        return 160 if len(sys.argv) < 2 else int(sys.argv[1])

    def __getitem__(self, i):
        time.sleep(0.01)
        return torch.randn(8)

torch.set_num_threads(1)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(Far(), batch_size=4, num_workers=1):
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
"""


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any path is a run whose two workers take 40 ms for a batch, and training 10."""
    monkeypatch.setattr(predict, "_opened", lambda path: recorded())
    monkeypatch.setattr(predict, "_trial", lambda path, calibrate: None)


def said(*words: str) -> str:
    done = CliRunner().invoke(COMMANDS, ["predict", "loader", "RUN", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.usefixtures("known")
def test_formats() -> None:
    lines = said("--workers", "1,2,4").splitlines()
    assert lines[0].split() == ["workers", "step", "low", "high", "saved", "limited_by", "recorded"]
    assert lines[2].split() == ["2", "20", "ms", "20", "ms", "20", "ms", "0", "ns", "workers", "yes"]
    rows = json.loads(said("--workers", "1,2,4", "--format", "json"))["rows"]
    assert [row["workers"] for row in rows] == [1, 2, 4]
    assert rows[1]["step"] == 20 * MS
    assert said("--workers", "2", "--format", "csv").startswith("rank,workers,step,low,high,saved,limited_by")
    assert said("--workers", "2", "--format", "markdown").startswith("| workers | step |")


@pytest.mark.usefixtures("known")
def test_only_what_was_recorded_is_called_so() -> None:
    rows = json.loads(said("--workers", "2,4", "--faster", "Blur=4", "--format", "json"))["rows"]
    assert [row["recorded"] for row in rows] == [False, False]


@pytest.mark.usefixtures("known")
def test_a_rank_that_is_not_there_is_told() -> None:
    done = CliRunner().invoke(COMMANDS, ["predict", "loader", "RUN", "--rank", "3"])
    assert done.exit_code == 2
    assert "--rank: this run has no rank 3" in done.stderr


@pytest.mark.usefixtures("known")
def test_changes(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    assert said("--workers", "2", "--faster", "Blur=4", "-o", str(target)) == ""
    (row,) = json.loads(target.read_text())["rows"]
    assert row["step"] == pytest.approx(12.5 * MS, rel=0.05)
    (row,) = json.loads(said("--workers", "2", "--without", "fetch", "--format", "json"))["rows"]
    assert row["limited_by"] == "training"
    training = row["step"]
    (row,) = json.loads(said("--workers", "2", "--without", "fetch", "--in-training", "1.5", "--format", "json"))[
        "rows"
    ]
    assert row["step"] - training == pytest.approx(1.5 * MS, rel=0.1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    (folder / "train.py").write_text(SCRIPT)
    words = ("run", "--quiet", "--loader", "all", "--trace", "none", "--out", "r", "--", sys.executable, "train.py")
    assert stepscope(*words, cwd=folder).returncode == 0
    return folder / "r"


def others_had_the_cores(said: str) -> bool:
    return any(words in said for words in ("load from other programs", "undisturbed", "off by"))


@pytest.mark.slow
def test_rows_for_workers(run: Path) -> None:
    done = stepscope("predict", "loader", run, "--workers", "1,4", "--format", "json")
    if others_had_the_cores(done.stderr):
        pytest.skip("other programs have this machine")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    one, four = document["rows"]
    assert document["analysis"] == "loader_prediction"
    assert one["recorded"]
    assert one["saved"] == 0
    assert four["step"] < 0.5 * one["step"], "reads that wait are hidden by workers on any number of cores"
    assert four["low"] <= four["step"] <= four["high"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workers", "4:2"], "'4:2' is no number of workers from 0 to 64"),
        (["--workers", "65"], "write --workers 4, --workers 1,2,4 or --workers 0:16"),
        (["--faster", "Blur"], "'Blur' is not NAME=NUMBER"),
        (["--faster", "Blur=0"], "write --faster RandomMask=10"),
        (["--in-training", "inf"], "inf is no time"),
        (["--in-training", "nan"], "nan is no time"),
    ],
)
def test_a_mistake_is_told(words: list[str], message: str) -> None:
    done = stepscope("predict", "loader", "RUN", *words)
    assert done.returncode == 2
    assert message in done.stderr


def job(folder: Path, script: str, *words: object) -> Path:
    """The run of a script, with spans."""
    (folder / "train.py").write_text(script)
    begin = ("run", "--quiet", "--loader", "all", "--trace", "none", "--out", "r", "--")
    assert stepscope(*begin, sys.executable, "train.py", *words, cwd=folder).returncode == 0
    return folder / "r"


@pytest.mark.slow
def test_a_trial_is_made_once_and_kept(tmp_path: Path) -> None:
    folder = job(tmp_path, SCRIPT)
    (tmp_path / "train.py").write_text(
        SCRIPT.replace("160", "2000")
    )  # the trial ends the job when it has what it needs
    words = ("predict", "loader", folder, "--workers", "1,4", "--format", "json")
    done = stepscope(*words, "--calibrate")
    assert "runs the command of" in done.stderr
    kept = folder / "trials" / "calibration"
    if not others_had_the_cores(done.stderr):
        assert done.returncode == 0, done.stderr
        one, four = json.loads(done.stdout)["rows"]
        assert one["basis"].startswith("core contention measured by calibration")
        assert four["high"] < one["step"]
    facts = [json.loads(line) for line in next(kept.glob("rank-*/facts.jsonl")).read_text().splitlines()]
    (*_, last) = [fact for fact in facts if fact["kind"] == "calibration"]
    assert last["over"]
    for measured in last["rounds"]:
        waits = sum(wait for wait, _, _ in measured["usual"]), sum(wait for wait, _, _ in measured["fed"])
        assert waits[0] > 20 * waits[1], "fed batches lie ready"
    written = (kept / "end.json").read_text()
    assert json.loads(written)["signal"] == signal.SIGTERM
    again = stepscope(*words, "--calibrate")
    assert "is used; remove it for a new one" in again.stderr
    assert stepscope(*words).stdout == again.stdout == done.stdout
    assert (kept / "end.json").read_text() == written


WITHOUT_LOADER = SCRIPT.replace("DataLoader(Far(), batch_size=4, num_workers=1)", "[torch.randn(4, 8)] * 200")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("after", "message"),
    [
        (WITHOUT_LOADER, "no DataLoader of torch was seen to train"),
        ("raise ValueError('no such data')", "the job ended with exit code 1, its last line: ValueError: no such data"),
        (SCRIPT.replace("batch_size=4", "batch_size=40"), "it ended before a round of the trial was over"),
    ],
)
def test_a_trial_that_measures_nothing_is_told_and_not_kept(run: Path, after: str, message: str) -> None:
    (run.parent / "train.py").write_text(after)
    done = stepscope("predict", "loader", run, "--calibrate")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not (run / "trials" / "calibration").exists()


@pytest.mark.slow
def test_ctrl_c_ends_the_trial(tmp_path: Path) -> None:
    folder = job(tmp_path, SCRIPT)
    (tmp_path / "train.py").write_text("import time; time.sleep(600)")
    words = command("predict", "loader", str(folder), "--calibrate")
    trial = folder / "trials" / "calibration.unfinished"
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as predicting:
        while not running_in(trial):
            assert predicting.poll() is None
            time.sleep(0.1)
        predicting.send_signal(signal.SIGINT)
        _, told = predicting.communicate(timeout=60)
    assert predicting.returncode == 130
    assert b"Traceback" not in told
    assert not running_in(trial)


def running_in(folder: Path) -> list[str]:
    """Processes of the job: their environment names the folder that they record in."""
    mark, found = f"STEPSCOPE_RUN_DIR={folder}\0".encode(), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in Path("/proc", name, "environ").read_bytes():
                found.append(name)
        except OSError:
            continue
    return found


def test_what_cannot_be_run_again_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "_opened", lambda path: recorded())
    here = {"command": [sys.executable, "train.py"], "cwd": str(tmp_path)}
    for row, message in (
        ({}, "is no run folder that tells what was run"),
        ({**here, "cwd": "/no/such/folder"}, "its command ran in /no/such/folder, which is not here"),
        ({**here, "command": ["nosuchcommand"]}, "its command is not here: nosuchcommand"),
        ({**here, "cores": {"effective": 1000.0}}, "it was recorded with 1000 cores, and here are"),
    ):
        (tmp_path / "run.json").write_text(json.dumps(row))
        done = CliRunner().invoke(COMMANDS, ["predict", "loader", str(tmp_path), "--calibrate"])
        assert done.exit_code == 2
        assert message in done.stderr
        assert list(tmp_path.iterdir()) == [tmp_path / "run.json"]
