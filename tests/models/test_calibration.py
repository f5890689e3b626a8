"""What is read of a trial."""

import json
from typing import Any

import polars as pl
import pytest

from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.calibration import COLD_CACHE_SLOWDOWN, READY, calibration_of
from stepscope.models.pipeline import FRESH

from .recorded_loading import MS, recorded


def trial(*usual: float, wait: float = 30, device: bool = False, size: int = 0, here: tuple[int, ...] = ()) -> Run:
    """A round for each of `usual`: the CPU time, ms, of steps that waited; those that were fed take 10, whole 12. The
    training process made batches `here`, in ms."""
    rounds: list[dict[str, Any]] = [
        {
            "usual": [[int(wait * MS), int(one * MS), int(one * MS)]] * 12,
            "taken": [40 * MS] * 8,
            "fed": [[0, 10 * MS, 10 * MS]] * 12,
            "fed_ns": 12 * 12 * MS,
            "bytes": size,
        }
        for one in usual
    ]
    run, facts = recorded(others=0.5), Synth()
    for so_far in range(1, len(rounds) + 1):
        fact = {"kind": "calibration", "rounds": rounds[:so_far], "device": device, "over": so_far == len(rounds)}
        facts.add("meta", source="/runs/r/rank-00000.pid-1", key="calibration", value=json.dumps(fact))
    fact = {**fact, "here": [one * MS for one in here]}
    facts.add("meta", source="/runs/r/rank-00000.pid-1", key="calibration", value=json.dumps(fact))
    meta = pl.concat([run.table("meta", how=""), facts.run().optional("meta")])
    return Run({**run.tables, "meta": meta}, run.path)


def test_training_that_never_waits_and_what_waiting_adds() -> None:
    found = calibration_of(trial(11, 11, 11), 0)
    assert found.own / MS == pytest.approx(12 * (1 + READY)), "a batch that is ready still has to be taken"
    assert (
        found.cold_cache_slowdown.value,
        found.cold_cache_slowdown.low,
        found.cold_cache_slowdown.high,
    ) == pytest.approx((0.1 - READY,) * 3)
    parts = {call.name: call.cpu for call in found.calls}
    assert parts == pytest.approx({"data.Blur": 0.5, "data.Pictures": 0.4, "data.collate": 0.1})
    assert not found.device
    assert found.foreign == 0.5


def test_batches_that_are_fed_were_touched_before() -> None:
    assert calibration_of(trial(11, 11, size=50_000_000), 0).own / MS == pytest.approx(12 * (1 + READY) + 50 * FRESH)
    assert calibration_of(trial(11, 11, device=True), 0).own == 12 * MS, "to the end of the device's work"


def test_rounds_that_differ_say_little_against_what_was_measured_before() -> None:
    """Ratios of 1 and 1.2: 0.1 with a standard error of 0.1, beside 0.07 with one of 0.07 / 1.5."""
    found = calibration_of(trial(10, 12), 0).cold_cache_slowdown
    weight = (0.07 / 1.5) ** 2 / ((0.07 / 1.5) ** 2 + 0.1**2)
    assert found.value == pytest.approx(0.07 + weight * 0.03 - READY)
    assert found.high - found.value == pytest.approx(0.07 * (1 - weight) ** 0.5)
    assert found.value - found.low == pytest.approx(found.high - found.value)


@pytest.mark.parametrize(
    "strange", [trial(12, 12, wait=0.1), trial(12), trial(12, 12, device=True), trial(12, 12, size=2_000_000)]
)
def test_where_it_does_not_tell_what_was_measured_before_holds(strange: Run) -> None:
    """Steps that did not wait, a single round, a device whose work is no CPU time, batches that are slow to touch."""
    assert calibration_of(strange, 0).cold_cache_slowdown == COLD_CACHE_SLOWDOWN


def test_threads_that_spin_beside_workers_tell_nothing_of_waiting() -> None:
    run = trial(12, 12)
    threads = Synth().add("processes", threads=2).run().table("processes", how="")
    assert (
        calibration_of(Run({**run.tables, "processes": threads}, run.path), 0).cold_cache_slowdown
        == COLD_CACHE_SLOWDOWN
    )
    assert calibration_of(run, 0).cold_cache_slowdown != COLD_CACHE_SLOWDOWN


def test_what_others_did_before_it_trained_disturbs_no_trial() -> None:
    run, synth = trial(11, 11), Synth()
    for second, cores in ((0, 2.0), (2, 0.5)):  # a sample is about the second before it
        synth.add("system", time=second * 1000 * MS, rank=None, what="other CPU", value=cores, unit="cores")
    system = synth.run().table("system", how="")
    assert calibration_of(Run({**run.tables, "system": system}, run.path), 0).foreign == 0.5


def test_batches_that_the_training_process_made() -> None:
    assert calibration_of(trial(11, 11, here=(4, 6)), 0).here == 5 * MS
    assert calibration_of(trial(11, 11), 0).here is None


def test_a_step_is_not_taken_to_be_shorter_after_a_wait() -> None:
    assert calibration_of(trial(5, 5, 5), 0).cold_cache_slowdown.value == pytest.approx(-0.05 - READY)


def test_a_trial_of_another_rank_is_none() -> None:
    with pytest.raises(MissingData, match="no trial of rank 1 in this run"):
        calibration_of(trial(11, 11), 1)
