"""Training in many shapes, each in a forked child of one job: what the probe makes of it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from .conftest import Process, Recording
from .fake_job import KINDS, probe

pytestmark = pytest.mark.slow

WHOLE_TORCH = True

JOB = str(Path(__file__).parent / "jobs" / "scenarios.py")
SCENARIOS = (
    "two_optimizers", "reentrant", "nested", "threaded", "generator", "closures", "skipped_steps", "broken_sample",
    "persistent", "loader_anew", "behind_our_back", "pair", "batches", "known_batch_size",
)  # fmt: skip
STEPS = 6


@pytest.fixture(scope="module", params=KINDS)
def recording(record: Callable[..., Recording], request: pytest.FixtureRequest) -> Recording:
    probe(request.param)
    with mock.patch.dict(os.environ, {"STEPSCOPE_HOOKS": request.param}):
        return record([sys.executable, JOB, *SCENARIOS])


@pytest.fixture
def scenario(recording: Recording) -> Callable[[str], Process]:
    def of(name: str) -> Process:
        (process,) = [each for each in recording.processes if each.process["rank"] == SCENARIOS.index(name)]
        return process

    return of


def test_every_child_that_trained_has_its_folder_and_the_parent_none(recording: Recording) -> None:
    assert recording.end.code == 0
    assert [process.process["rank"] for process in recording.processes] == list(range(len(SCENARIOS)))
    assert len({process.process["pid"] for process in recording.processes}) == len(SCENARIOS)
    for process in recording.processes:
        assert process.folder.name == "rank-{rank:05d}.pid-{pid}".format(**process.process)
        assert process.notes == []
        assert [step.step for step in process.steps] == list(range(len(process.steps)))
        assert all(step.other >= 0 for step in process.steps)


def test_each_job_that_stepped_says_how_dear_the_probe_is(recording: Recording) -> None:
    assert all(100 < process.process["probe_step_ns"] < 1_000_000 for process in recording.processes)


def test_two_optimizers_make_one_step(scenario: Callable[[str], Process]) -> None:
    process = scenario("two_optimizers")
    assert [step.micro_batches for step in process.steps] == [1] + [2] * (STEPS - 1)
    optimizers = [fact for fact in process.facts if fact["kind"] == "optimizer"]
    assert [(fact["class"], fact["parameters"], fact["elements"]) for fact in optimizers] == [
        ("Adam", 2, 9),
        ("SGD", 2, 9),
    ]


def test_a_reentrant_checkpoint_is_one_backward(scenario: Callable[[str], Process]) -> None:
    assert [(step.micro_batches, step.flags) for step in scenario("reentrant").steps[1:]] == [(1, 0)] * (STEPS - 1)


def test_a_loader_inside_a_dataset_is_not_counted_twice(scenario: Callable[[str], Process]) -> None:
    process = scenario("nested")
    assert len(process.steps) == STEPS
    assert {(step.evaluation_wait, step.samples) for step in process.steps} == {(0, 4)}
    assert process.fact("loader")["dataset"] == "__main__.Around"


def test_a_loader_in_a_thread_is_not_observed(scenario: Callable[[str], Process]) -> None:
    last = scenario("threaded").steps[-1]
    assert (last.data_wait, last.samples, last.flags) == (-1, -1, 32 | 64)


def test_data_without_a_loader_are_not_observed(scenario: Callable[[str], Process]) -> None:
    assert {(step.data_wait, step.samples, step.flags) for step in scenario("generator").steps} == {(-1, -1, 32)}


def test_an_optimizer_that_asks_several_times_makes_one_step(scenario: Callable[[str], Process]) -> None:
    steps = scenario("closures").steps
    assert len(steps) == STEPS
    assert all(step.flags & 256 and step.samples == 4 for step in steps)
    assert steps[0].micro_batches > 1


def test_a_step_that_the_scaler_leaves_out_merges_with_the_next(scenario: Callable[[str], Process]) -> None:
    process = scenario("skipped_steps")
    assert [(step.micro_batches, step.samples) for step in process.steps] == [(2, 8)] * STEPS


def test_the_users_exception_is_the_users(scenario: Callable[[str], Process]) -> None:
    process = scenario("broken_sample")
    assert len(process.steps) == STEPS - 1
    assert all(step.samples == 4 for step in process.steps)


def test_persistent_workers_start_each_epoch(scenario: Callable[[str], Process]) -> None:
    process = scenario("persistent")
    assert [step.flags for step in process.steps] == [8, 0, 24, 0, 24, 0]
    assert process.fact("loader")["persistent_workers"] is True


def test_a_loader_made_anew_each_epoch_is_the_same_loader(scenario: Callable[[str], Process]) -> None:
    process = scenario("loader_anew")
    assert process.fact("loader")["id"] == process.fact("train_loader")["id"] == 0
    assert [step.samples for step in process.steps] == [4] * STEPS


def test_an_iterator_made_behind_our_back_is_seen(scenario: Callable[[str], Process]) -> None:
    process = scenario("behind_our_back")
    assert all(step.data_wait > 0 for step in process.steps)
    assert process.fact("loader")["dataset"] == "__main__.Rows"


def test_a_zipped_pair_trains_together(scenario: Callable[[str], Process]) -> None:
    process = scenario("pair")
    assert {(step.evaluation_wait, step.samples) for step in process.steps} == {(0, 8)}


def test_samples_are_counted_in_every_kind_of_batch_or_unknown(scenario: Callable[[str], Process]) -> None:
    steps = scenario("batches").steps
    pairs = [(steps[index].samples, steps[index + 1].samples) for index in range(0, len(steps), 2)]
    assert pairs[:6] == [(3, 5)] * 6
    assert pairs[-1] == (-1, -1)


def test_a_list_of_images_is_counted_by_its_length(scenario: Callable[[str], Process]) -> None:
    assert [step.samples for step in scenario("known_batch_size").steps] == [4, 4, 2]


def test_a_loader_is_described_with_the_place_of_its_code(scenario: Callable[[str], Process]) -> None:
    loader = scenario("known_batch_size").fact("loader")
    lines = Path(JOB).read_text().splitlines()
    assert (loader["collate_file"], loader["batch_size"], loader["shuffle"]) == (JOB, 4, False)
    assert "tuple(zip(*rows" in lines[loader["collate_line"] - 1]
    rows = scenario("pair").facts[0]
    assert (rows["dataset"], rows["dataset_file"]) == ("__main__.Rows", JOB)
    assert "def __getitem__" in lines[rows["dataset_line"] - 1]
