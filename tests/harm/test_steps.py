"""Steps are those of the training, whoever makes them; the job is the same."""

from collections.abc import Callable

import polars as pl
import pytest

from stepscope.storage import open_run

from ..collect.conftest import Process
from .conftest import Both

NAMES = (
    "folds", "clients", "samples", "meta", "adversaries", "own", "inside", "helper", "functional", "saliency",
    "generated",
)  # fmt: skip
WITHOUT_LOADER = ("clients", "samples", "meta")


@pytest.mark.slow
def test_steps_are_those_that_the_job_counts(both: Callable[..., Both]) -> None:
    run = both("steps.py", *NAMES)
    assert run.bare.seen[:2] == run.recorded.seen[:2]
    assert run.bare.code == 0
    processes = sorted(run.recording.processes, key=lambda process: int(process.process["rank"]))
    counted = {name: steps_of(process) for name, process in zip(NAMES, processes, strict=True)}
    assert counted == {line.split()[0]: int(line.split()[1]) for line in run.bare.out.splitlines()}
    for name, process in zip(NAMES, processes, strict=True):
        assert {step.samples for step in process.steps} == {-1 if name in WITHOUT_LOADER else 4}, name
        check(name, process)


def steps_of(process: Process) -> int:
    """Steps as a reader of the run has them: of an outer loop those at its start were recorded in parts."""
    steps = open_run(process.folder.parent).optional("steps")
    return steps.filter(pl.col("pid") == str(process.process["pid"])).height


def check(name: str, process: Process) -> None:
    """What else is known of a job's steps."""
    whys = [note["why"] for note in process.notes]
    assert whys == [], name
    if name == "meta":
        assert [step.micro_batches for step in process.steps] == [1] * 12 + [0] + [6] * 4
        return
    backwards = {"adversaries": {1, 2}, "functional": {0}, "saliency": {1, 4}}
    assert {step.micro_batches for step in process.steps} == backwards.get(name, {1}), name
    if name == "saliency":
        assert len([fact for fact in process.facts if fact["kind"] == "train_loader"]) == 1
        assert [bool(step.flags & 4) for step in process.steps] == [False, True, False] * 3
