"""`stepscope tune loader` with real jobs: where workers win, where nothing does, and what cannot be tuned."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from ..command import stepscope

JOB = """
import sys, time
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

LOAD, TRAIN, WORKERS = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])

class Rows(Dataset):
    def __len__(self):
        return 8000
    def __getitem__(self, index):
        time.sleep(LOAD)
        return torch.ones(4)

class Stream(IterableDataset):
    def __iter__(self):
        for index in range(8000):
            yield Rows()[index]

torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = Stream() if "stream" in sys.argv else Rows()
loader = DataLoader(data, batch_size=4, num_workers=WORKERS, prefetch_factor=4 if WORKERS else None)
print("started")
if "broken" in sys.argv:
    raise ValueError("no such data")
for batch in loader:
    model(batch).mean().backward()
    time.sleep(TRAIN)
    optimizer.step()
"""
LINE = next(number for number, line in enumerate(JOB.splitlines(), 1) if line.startswith("loader = "))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(JOB)
    monkeypatch.setenv("STEPSCOPE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def tuned(folder: Path, *words: object, steps: int = 15) -> subprocess.CompletedProcess[str]:
    before, job = words[: words.index("--")], words[words.index("--") + 1 :]
    done = stepscope("tune", "loader", "--steps", steps, *before, "--", "python", "train.py", *job, cwd=folder)
    assert list(running_in(folder)) == []
    assert (folder / "train.py").read_text() == JOB
    return done


def running_in(folder: Path) -> list[str]:
    """Processes of the job that are left: their environment names the folder that they record in."""
    left = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            mark = f"STEPSCOPE_RUN_DIR={folder}".encode()
            if mark in Path("/proc", name, "environ").read_bytes():
                left.append(name)
        except OSError:
            continue
    return left


@pytest.mark.slow
@pytest.mark.alone
def test_workers_win_for_samples_that_wait_and_it_is_remembered(folder: Path) -> None:
    done = tuned(folder, "--workers", 2, "--format", "json", "--", 0.008, 0.008, 1)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["winner"] == {"num_workers": 2}
    own, best = found["tried"][:2]
    assert (own["setting"], best["setting"]) == ({}, {"num_workers": 2})
    ratio = best["times_as_fast"]
    assert 1.3 < ratio["low"] <= ratio["estimate"] <= ratio["high"]
    assert own["data_wait_ratio"] > best["data_wait_ratio"]
    assert found["own"]["workers"] == 1
    assert found["change"]["place"]["line"] == LINE
    assert found["change"]["code"].endswith(", num_workers=2)")
    assert done.stderr.count("stepscope: num_workers=2: ") >= 2
    trials = sorted(path for path in (folder / found["folder"]).iterdir() if path.is_dir())
    assert len(trials) == found["trials"]
    assert json.loads((trials[0] / "end.json").read_text())["signal"] == 15
    output = (trials[0] / "output.txt").read_text()
    assert output.startswith("started\n")  # what multiprocessing says of being ended in the middle may follow
    again = tuned(folder, "--workers", 2, "--budget", "1s", "--", 0.008, 0.008, 1)
    assert "stepscope: num_workers=2" in again.stderr
    assert " won on 20" in again.stderr
    assert "No clear winner: the time was over" in again.stdout


@pytest.mark.slow
@pytest.mark.alone
def test_a_loader_that_keeps_up_has_no_winner(folder: Path) -> None:
    done = tuned(folder, "--budget", "10s", "--", 0.0, 0.1, 0)
    assert done.returncode == 0
    assert done.stdout.startswith(("No change: ", "No clear winner: "))  # the second where others have the cores
    assert "recorded in stepscope-runs/tune-train-" in done.stdout.replace("\n", " ")


@pytest.mark.slow
def test_an_unshared_iterable_gets_no_more_workers(folder: Path) -> None:
    done = tuned(folder, "--workers", "2,4", "--", 0.002, 0.005, 0, "stream")
    assert done.returncode == 0
    assert done.stdout.startswith("Nothing was tried: the loader that trains can have no other settings.\n")
    assert "Stream is an IterableDataset that does not ask which worker it is in" in done.stdout.replace("\n", " ")
    assert "2 trials in" in done.stdout


@pytest.mark.slow
def test_a_job_that_fails_at_once_is_told_with_its_last_line(folder: Path) -> None:
    done = tuned(folder, "--", 0.0, 0.0, 0, "broken")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the job as it is: the job ended with exit code 1, its last line: ValueError: no such data" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--"], "tune loader: no command to run"),
        (["--budget", "5", "--", "true"], "--budget: '5' is no time\n  write --budget 90s, 5m or 1h"),
        (["--workers", "two", "--", "true"], "--workers: 'two' is no number of workers"),
        (["--", "nosuchcommand"], "nosuchcommand: command not found"),
        (["-o", "x.pdf", "--", "true"], "x.pdf: .pdf is none of the formats"),
        (["--steps", "1", "--", "true"], "1 is not in the range"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(tmp_path: Path, words: list[str], message: str) -> None:
    done = stepscope("tune", "loader", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []
