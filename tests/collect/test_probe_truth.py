"""Real training under the probe: what is recorded against what the script counts itself, within two points."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from .conftest import Process, Recording

pytestmark = pytest.mark.alone

JOB = str(Path(__file__).parent / "jobs" / "truth.py")
WARM_UP = 3
POINTS = 0.02

MODES = (
    "share=0.1", "share=0.5", "share=0.9", "accumulation=4", "closure", "iterable", "workers=0", "workers=2",
    "validation",
)  # fmt: skip

Run = Callable[[str], tuple[Process, dict[str, Any]]]


@pytest.fixture(scope="module")
def run(record: Callable[..., Recording], tmp_path_factory: pytest.TempPathFactory) -> Run:
    truths = tmp_path_factory.mktemp("truths")
    recording = record([sys.executable, JOB, str(truths), *MODES])
    assert recording.end.code == 0
    assert recording.end.not_recorded == []

    def of(mode: str) -> tuple[Process, dict[str, Any]]:
        rank = MODES.index(mode)
        (process,) = [each for each in recording.processes if each.process["rank"] == rank]
        assert all(step.other >= 0 for step in process.steps)
        assert [step.step for step in process.steps] == list(range(len(process.steps)))
        return process, json.loads((truths / str(rank)).read_text())

    return of


def test_every_mode_has_its_folder_and_no_other_process_has_one(run: Run) -> None:
    folders = [run(mode)[0].folder for mode in MODES]
    assert sorted(folders[0].parent.glob("rank-*")) == sorted(folders)


def assert_true(process: Process, truth: dict[str, Any]) -> None:
    steps = process.steps[WARM_UP:]
    assert len(process.steps) == truth["steps"]
    assert sum(step.samples for step in steps) == truth["samples"]
    span = steps[-1].end - process.steps[WARM_UP - 1].end
    assert span / 1e9 == pytest.approx(truth["duration"], rel=POINTS)
    share = sum(step.data_wait for step in steps) / span
    assert share == pytest.approx(truth["data_wait"] / truth["duration"], abs=POINTS)


@pytest.mark.parametrize("share", ["0.1", "0.5", "0.9"])
def test_a_sleeping_loader_has_the_share_that_the_script_counts(run: Run, share: str) -> None:
    process, truth = run(f"share={share}")
    assert_true(process, truth)
    # Of the job itself: what it computes takes longer beside others.
    assert truth["data_wait"] / truth["duration"] == pytest.approx(float(share), abs=0.2)
    assert {(step.micro_batches, step.samples) for step in process.steps} == {(1, 4)}


def test_accumulation_over_four_batches(run: Run) -> None:
    process, truth = run("accumulation=4")
    assert_true(process, truth)
    assert {(step.micro_batches, step.samples) for step in process.steps} == {(4, 16)}


def test_a_closure_with_a_batch_fetched_ahead(run: Run) -> None:
    process, truth = run("closure")
    assert_true(process, truth)
    assert all(step.flags & 256 for step in process.steps)
    assert median(step.optimizer for step in process.steps) < median(step.forward for step in process.steps)


def test_an_iterable_dataset(run: Run) -> None:
    assert_true(*run("iterable"))


@pytest.mark.parametrize("workers", ["0", "2"])
def test_workers_are_inert_and_their_wait_is_seen(run: Run, workers: str) -> None:
    process, truth = run(f"workers={workers}")
    assert_true(process, truth)
    loader = process.fact("loader")
    assert loader["num_workers"] == int(workers)
    assert len(json.loads("[" + (process.folder.parent / "processes.jsonl").read_text() + "]")) == 1


def test_a_validation_every_epoch_is_no_data_wait(run: Run) -> None:
    process, truth = run("validation")
    assert_true(process, truth)
    after_validation = [step.step for step in process.steps if step.flags & 4]
    assert after_validation == [20, 40]
    assert all(process.steps[step].evaluation_wait > 20_000_000 for step in after_validation)
    assert process.fact("train_loader") == {"kind": "train_loader", "id": 0}
