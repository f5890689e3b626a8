"""What is taken from the recording of a trial: steps after warm-up, without evaluations, of the loader that trains."""

import json

import pytest

from stepscope.core.synth import MS, Synth
from stepscope.experiments.trial_result import Setting, trial_result, warm_up


def trial(steps: int, *, workers: int = 0, prefetch: int | None = None, ranks: int = 1) -> Synth:
    """Steps of 10 ms that wait for 4; the first 20 take 30 ms, every 25th has an evaluation."""
    synth = Synth()
    for rank in range(ranks):
        synth.add(
            "loaders", rank=rank, loader=0, train=True, num_workers=workers, prefetch_factor=prefetch, pin_memory=False,
            persistent_workers=False, made_file="/train.py", made_line=7,
        )  # fmt: skip
        start = 0.0
        for step in range(steps):
            tags = ("evaluation",) if step % 25 == 24 else ("epoch-end",) if step % 25 == 23 else ()
            length = 30 if step < 20 else 50 if tags[:1] == ("evaluation",) else 10
            synth.step(step, start, start + length, data_wait=4, rank=rank, tags=tags)
            start += length
    return synth


def test_steps_after_the_warm_up_without_evaluations() -> None:
    outcome = trial_result(trial(60).run(), wall_s=3.0)
    assert set(outcome.times) == {10.0 * MS}
    assert len(outcome.times) == 60 - 20 - 2
    assert outcome.wait == 4 * MS
    assert (outcome.epochs, outcome.ranks, outcome.gpu, outcome.wall_s) == (2, 1, False, 3.0)
    assert outcome.loader is not None
    assert outcome.loader.place is not None
    assert (outcome.loader.workers, outcome.loader.place.file, outcome.loader.place.line) == (0, "/train.py", 7)


def test_what_other_programs_used_while_it_trained() -> None:
    """A sample is about the second before it: the first is about the start, the last about the end of the job."""

    def others(steps: int) -> float | None:
        run = trial(steps)
        for second, cores in enumerate((2.0, 1.0, 0.1, 0.3, 2.0), 0):
            run.add("system", time=second * 1000 * MS, rank=None, what="other CPU", value=cores, unit="cores")
        return trial_result(run.run(), wall_s=3.0).others

    assert others(280) == pytest.approx(0.2), "steps from 0.6 to 3.7 s"
    assert others(60) is None


def test_the_mean_of_the_ranks_is_one_step() -> None:
    outcome = trial_result(trial(60, ranks=2).run(), wall_s=3.0)
    assert (len(outcome.times), outcome.ranks) == (38, 2)


@pytest.mark.parametrize(("workers", "prefetch", "steps"), [(0, None, 20), (4, 2, 20), (8, 2, 32), (8, 4, 64)])
def test_the_store_of_ready_batches_is_used_up_first(workers: int, prefetch: int | None, steps: int) -> None:
    assert warm_up(workers, prefetch) == steps


def test_of_a_short_run_only_the_first_third_is_dropped() -> None:
    assert len(trial_result(trial(24).run(), wall_s=1.0).times) == 24 - 7


def test_a_trial_that_was_refused_or_made_no_steps_has_no_times() -> None:
    fact = {"kind": "override", "id": 0, "wanted": {"num_workers": 2}, "set": {}, "refused": "no"}
    refused = trial(60).add("meta", key="override 0", value=json.dumps(fact)).run()
    assert trial_result(refused, wall_s=1.0).refused == "no"
    assert trial_result(Synth().run(), wall_s=1.0).failed == "it made no training steps"
    alone = Synth()
    for step in range(40):
        alone.step(step, step * 10, step * 10 + 10)
    assert trial_result(alone.run(), wall_s=1.0).failed == "no DataLoader of torch was seen to train"


def test_the_simulation_of_the_loader_tells_how_many_workers_to_try_first() -> None:
    """A worker makes a batch in 40 ms and training takes 10: with 5 workers it does not wait; 2 cores feed 2."""

    def initial_workers(cores: float, fetch: float = 40) -> int | None:
        synth = Synth().loading(
            length=40, own=10, workers=1, cores=cores, parts=(("sample", "data.Rows", fetch, fetch),), used=1.3
        )
        return trial_result(synth.run(), wall_s=1.0, simulated=True).initial_workers

    assert initial_workers(16) in (4, 5, 6)
    assert initial_workers(2) == 2
    assert trial_result(trial(60).run(), wall_s=1.0, simulated=True).initial_workers is None, (
        "nothing was recorded of its loader"
    )


def test_a_setting_reads_as_keywords() -> None:
    four = Setting((("num_workers", 4),))
    assert Setting().text() == "as it is"
    assert four.with_("pin_memory", True).text() == "num_workers=4, pin_memory=True"
    assert four.with_("num_workers", 2) == Setting((("num_workers", 2),))
