"""The probe in jobs that fork, and in jobs that end badly; nothing of them is timed."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.collect.launch import launch
from stepscope.run_format.options import RecordingOptions

from ..small_disk import mounted
from .conftest import lines_of, read_recording, steps_of

pytestmark = pytest.mark.slow

NOTHING = RecordingOptions()


ENDLESS = """
import itertools, time, torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.ones(400, 8)), 4)
for step in itertools.cycle([0]):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
"""


def kill_when_stepping(out: Path, wait: float, number: int = signal.SIGKILL) -> None:
    """Kill the only training process of the run, `wait` seconds after its first step."""
    while not list(out.glob("rank-*/steps.bin")):
        time.sleep(0.01)
    time.sleep(wait)
    (rank,) = out.glob("rank-*")
    os.kill(int(rank.name.split("pid-")[1]), number)


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_job_leaves_every_step_but_the_last(tmp_path: Path, seed: int) -> None:
    out = tmp_path / "out"
    killer = threading.Thread(target=kill_when_stepping, args=(out, random.Random(seed).uniform(0, 0.2)))
    killer.start()
    end = launch([sys.executable, "-c", ENDLESS], str(out), NOTHING)
    killer.join()
    assert end.signal == signal.SIGKILL
    process = read_recording(out, end).only
    assert [step.step for step in process.steps] == list(range(len(process.steps)))
    assert all(step.other >= 0 for step in process.steps)
    assert process.fact("loader")["batch_size"] == 4


FINITE = ENDLESS.replace("itertools.cycle([0])", "range(30)") + "\nprint('trained', flush=True)\nraise SystemExit(5)\n"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "96k") as disk:
        yield disk


def test_a_disk_that_fills_up_costs_steps_and_nothing_else(small_disk: Path, capfd: pytest.CaptureFixture[str]) -> None:
    end = launch([sys.executable, "-c", FINITE], str(small_disk / "out"), NOTHING)
    assert (end.code, capfd.readouterr().out) == (5, "trained\n")
    (rank,) = (small_disk / "out").glob("rank-*")
    steps = steps_of(rank / "steps.bin")
    assert 100 < len(steps) < 3000
    assert [step.step for step in steps] == list(range(len(steps)))
    assert "steps" in [row["what"] for row in lines_of(rank / "notes.jsonl")]
    assert any("No space" in row["why"] for row in end.not_recorded)


def test_an_out_folder_on_a_read_only_disk(small_disk: Path, capfd: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    end = launch([sys.executable, "-c", FINITE], str(small_disk / "out"), NOTHING)
    assert (end.code, capfd.readouterr().out, end.recorded) == (5, "trained\n", False)
    assert "Read-only" in end.not_recorded[0]["why"]


def test_a_run_folder_that_is_gone_when_training_starts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    code = f"import shutil; shutil.rmtree({str(out)!r})\n" + FINITE
    end = launch([sys.executable, "-c", code], str(out), NOTHING)
    assert end.code == 5
    assert capfd.readouterr() == ("trained\n", "")
    assert end.not_recorded


def test_ctrl_c_is_the_users(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    killer = threading.Thread(target=kill_when_stepping, args=(out, 0.1, signal.SIGINT))
    killer.start()
    end = launch([sys.executable, "-c", ENDLESS], str(out), NOTHING)
    killer.join()
    assert end.signal == signal.SIGINT
    assert "KeyboardInterrupt" in capfd.readouterr().err
    assert not [row for row in end.not_recorded if row["what"].startswith("steps")]


FORKING = """
import multiprocessing, torch
torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).pow(2).mean().backward()
        optimizer.step()
train(3)
child = multiprocessing.get_context("fork").Process(target=train, args=(2,))
child.start()
child.join()
train(3)
raise SystemExit(child.exitcode)
"""


def test_a_child_forked_in_the_middle_of_training_has_its_own_record(tmp_path: Path) -> None:
    out = tmp_path / "out"
    end = launch([sys.executable, "-c", FORKING], str(out), RecordingOptions(lines_hz=50))
    assert (end.code, end.not_recorded) == (0, [])
    parent, child = sorted(read_recording(out, end).processes, key=lambda process: -len(process.steps))
    assert [step.step for step in parent.steps] == list(range(6))
    assert [step.step for step in child.steps] == list(range(2))
    assert parent.fact("optimizer") == child.fact("optimizer")
