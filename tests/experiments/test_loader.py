"""Tuning of a loader against a simulated job: the law of the loader, noise, drift, a budget."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from stepscope.core.errors import BadInput
from stepscope.experiments.loader import TuneAnswer, initial_workers, tune_loader, workers_to_try
from stepscope.experiments.successive_halving import Results
from stepscope.experiments.trial_result import AS_IT_IS, Loader, Setting, TrialResult

MS = 1e6
STEPS = 60
LAUNCH_S = 4.0


@dataclass
class Job:
    """A step of `train` ms; a batch takes a worker `load` ms, and all of them share `cores`.

    Every trial is slower than the last one by `drift`, and starts differ by `spread`.
    """

    train: float
    load: float
    own: int = 0
    cores: float = 64.0
    drift: float = 0.0
    spread: float = 0.002
    gpu: bool = False
    pinned_gain: float = 1.0
    refuse_above: int = 99
    fail_above: int = 99
    now: float = 0.0
    made: list[Setting] = field(default_factory=list)

    def __call__(self, setting: Setting, seconds: float) -> TrialResult:
        self.made.append(setting)
        workers = int(self.own if (given := setting.get("num_workers")) is None else given)
        self.now += LAUNCH_S
        if workers > self.refuse_above:
            return TrialResult(times=np.empty(0), refused="it would give every sample twice", wall_s=LAUNCH_S)
        if workers > self.fail_above:
            return TrialResult(times=np.empty(0), failed="the job ended with exit code 1", wall_s=LAUNCH_S)
        random = np.random.default_rng(len(self.made))
        train = self.train / (self.pinned_gain if setting.get("pin_memory") else 1.0)
        mean = max(train, self.load / min(workers, self.cores)) if workers else train + self.load
        mean *= (1 + self.drift * len(self.made)) * random.normal(1, self.spread)
        times = mean * MS * random.normal(1, 0.02, STEPS)
        loader = Loader(
            dataset="Rows", workers=workers, prefetch=2 if workers else None, persistent=False,
            pinned=bool(setting.get("pin_memory")), place=None, made_by=None,
        )  # fmt: skip
        self.now += mean * STEPS / 1000
        wait = max(0.0, mean - train) * MS
        return TrialResult(times=times, wait=wait, loader=loader, gpu=self.gpu, wall_s=LAUNCH_S + mean * STEPS / 1000)


def tuned(job: Job, seconds: float = 900, cores: float = 8.0, **more: object) -> TuneAnswer:
    def told(setting: Setting, outcome: TrialResult, results: Results) -> None:
        assert results.outcomes[setting]

    clock: Callable[[], float] = lambda: job.now  # noqa: E731
    return tune_loader(job, cores=cores, seconds=seconds, clock=clock, told=told, **more)  # type: ignore[arg-type]


def workers(number: int) -> Setting:
    return Setting((("num_workers", number),))


def test_the_fewest_workers_that_keep_up_win() -> None:
    result = tuned(Job(train=10, load=35))
    assert (result.winner, result.why) == (workers(4), "faster")
    ratio = result.row(workers(4)).ratio
    assert ratio is not None
    assert 4.2 < ratio.low <= ratio.estimate <= ratio.high < 4.8
    assert result.rows[0].setting == AS_IT_IS
    assert result.rows[0].wait == pytest.approx(35 / 45, abs=0.02)


def test_a_machine_that_becomes_slower_is_no_settings_fault() -> None:
    result = tuned(Job(train=20, load=2, own=1, drift=0.02))
    assert (result.winner, result.why) == (None, "not-clear")


def test_a_loader_that_keeps_up_has_no_clear_winner() -> None:
    assert tuned(Job(train=20, load=10, own=2)).winner is None


def test_without_a_wait_and_workers_one_trial_is_enough() -> None:
    job = Job(train=100, load=0.5)
    result = tuned(job)
    assert (result.why, result.trials, job.made) == ("nothing-waits", 1, [AS_IT_IS])


def test_rounds_go_to_and_fro_and_the_slower_half_is_dropped() -> None:
    job = Job(train=10, load=35)
    tuned(job, only=(1, 2, 4))
    first, second = job.made[:4], job.made[4:7]
    assert first == [AS_IT_IS, workers(1), workers(2), workers(4)]
    assert second == [workers(4), workers(2), AS_IT_IS]


def test_a_budget_that_is_spent_ends_the_trials() -> None:
    job = Job(train=10, load=35)
    result = tuned(job, seconds=20)
    assert (result.winner, result.why) == (None, "budget")
    assert job.now < 20 + LAUNCH_S


def test_workers_that_are_refused_are_not_asked_for_again() -> None:
    job = Job(train=10, load=35, refuse_above=1)
    result = tuned(job, only=(2, 4, 8))
    assert (result.why, job.made) == ("refused", [AS_IT_IS, workers(2)])
    assert result.row(workers(2)).left_out == "it would give every sample twice"


def test_a_setting_that_fails_is_left_out_of_further_rounds() -> None:
    result = tuned(Job(train=10, load=35, fail_above=3), only=(2, 4))
    assert result.winner == workers(2)
    assert result.row(workers(4)).left_out == "the job ended with exit code 1"
    assert tuned(Job(train=10, load=35, fail_above=0), only=(2, 4)).why == "failed"


def test_pinned_memory_is_tried_on_top_of_the_best_workers() -> None:
    result = tuned(Job(train=10, load=35, gpu=True, pinned_gain=1.2), only=(4,))
    assert result.winner == Setting((("num_workers", 4), ("pin_memory", True)))
    assert tuned(Job(train=10, load=35, gpu=True), only=(4,)).winner == workers(4)


def test_on_a_gpu_that_waits_for_nothing_only_pinned_memory_is_tried() -> None:
    job = Job(train=100, load=0.5, gpu=True, pinned_gain=1.2)
    pinned = Setting((("pin_memory", True),))
    assert tuned(job).winner == pinned
    assert set(job.made) == {AS_IT_IS, pinned}


def test_what_won_before_is_tried_first() -> None:
    job = Job(train=10, load=35)
    tuned(job, hint=workers(8))
    assert job.made[1] == workers(8)


def test_a_job_that_fails_as_it_is_is_told() -> None:
    with pytest.raises(BadInput, match="the job ended with exit code 1"):
        tuned(Job(train=10, load=35, fail_above=-1))


@pytest.mark.parametrize(("own", "first"), [(0, 4), (1, 4), (2, 4), (4, None)])
def test_the_initial_number_follows_the_law_of_the_loader(own: int, first: int | None) -> None:
    assert initial_workers(Job(train=10, load=35, own=own, spread=0.0)(AS_IT_IS, 60)) == first


def test_the_guess_of_the_model_comes_before_that_of_the_law() -> None:
    own = Job(train=10, load=35, spread=0.0)(AS_IT_IS, 60)
    assert initial_workers(replace(own, initial_workers=6)) == 6
    assert initial_workers(replace(own, initial_workers=6, wait=0.0)) is None


@pytest.mark.parametrize(
    ("own", "cores", "first", "tried"),
    [
        (0, 2.0, None, [2, 1, 4]),
        (0, 2.0, 3, [2, 4, 3, 1]),
        (4, 16.0, 6, [6, 8, 16, 2, 1]),
        (2, 0.5, None, [1, 0]),
    ],
)
def test_numbers_of_workers_are_around_the_cores(own: int, cores: float, first: int | None, tried: list[int]) -> None:
    found = workers_to_try(Job(train=10, load=35, own=own)(AS_IT_IS, 60), cores, first)
    assert sorted(found) == sorted(tried)
    assert found[0] == (first or tried[0])
