"""Predictions from recorded runs whose truth is known."""

from dataclasses import replace
from math import hypot, inf

import numpy as np
import pytest

from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.calibration import Calibration, ColdCacheSlowdown
from stepscope.models.fetch_parts import Call, both
from stepscope.models.loader_cases import case_of, draw_replica
from stepscope.models.loader_model import (  # fmt: skip
    Contention,
    LoaderChange,
    LoaderModel,
    Prediction,
    fit,
    names,
    predict,
    saving,
)
from stepscope.models.pipeline import pipeline

from .recorded_loading import MS, recorded

NONE = Contention(value=0.0, low=0.0, high=0.0)


def trial(cold_cache_slowdown: float = 0.0, *, own: float = 10, device: bool = False) -> Calibration:
    """Training takes `own` ms, and `cold_cache_slowdown` of it more after a wait."""
    known = ColdCacheSlowdown(value=cold_cache_slowdown, low=cold_cache_slowdown, high=cold_cache_slowdown)
    return Calibration(own=own * MS, cold_cache_slowdown=known, device=device)


def model(**facts: object) -> LoaderModel:
    """Of a program whose steps take as long after a wait as without, and whose work takes as long beside other work."""
    return fit(pipeline(recorded(**facts), 0), NONE, trial())  # type: ignore[arg-type]


def one(fitted: LoaderModel, **change: object) -> Prediction:
    return predict(fitted, [LoaderChange(**change)])[0]  # type: ignore[arg-type]


def test_more_workers_up_to_the_training_process() -> None:
    found = predict(model(), [LoaderChange(workers=workers) for workers in (1, 2, 4, 8)])
    assert [row.step_ns / MS for row in found] == pytest.approx([40, 20, 10, 10], rel=0.02)
    assert [row.limited_by for row in found] == ["workers", "workers", "training", "training"]
    assert all(row.low_ns <= row.step_ns <= row.high_ns for row in found)


def test_without_workers_it_is_the_sum() -> None:
    found = one(model(), workers=0)
    assert found.step_ns / MS == pytest.approx(50, rel=0.1)
    assert found.limited_by == "no workers"


def test_samples_made_with_the_threads_of_training_may_take_less() -> None:
    """40 ms of one thread in a worker are 20 to 50 ms with two threads; no trial has tried it."""

    def without_workers(threads: int) -> Prediction:
        return one(replace(model(), pipeline=replace(model().pipeline, threads=threads)), workers=0)

    alone, several = without_workers(1), without_workers(2)
    assert several.step_ns == pytest.approx(alone.step_ns, rel=0.1), "the most likely is that Python made them"
    assert alone.low_ns == pytest.approx(0.85 * alone.step_ns)
    assert several.low_ns < 35 * MS
    assert without_workers(16).low_ns == several.low_ns, "with more threads it was not measured"


def test_a_trial_tells_what_samples_take_with_the_threads_of_training() -> None:
    """24 ms instead of 40; half of a fetch that only waits stays."""
    measured = replace(pipeline(recorded(), 0), threads=2)
    found = one(fit(measured, NONE, replace(trial(), here=24.0 * MS)), workers=0)
    assert found.step_ns / MS == pytest.approx(34, rel=0.1)
    assert found.low_ns >= 0.85 * found.step_ns - 1
    waits = replace(pipeline(recorded(cpu=20, job=0.5), 0), threads=2)
    found = one(fit(waits, NONE, replace(trial(), here=30.0 * MS)), workers=0)
    assert found.step_ns / MS == pytest.approx(40, rel=0.1)


def test_samples_made_with_the_threads_of_training_may_take_more_in_workers() -> None:
    pipeline_of = model(workers=0, step=50, job=1.0)
    several = replace(pipeline_of, pipeline=replace(pipeline_of.pipeline, threads=2))
    assert one(several, workers=1).high_ns > 1.4 * one(pipeline_of, workers=1).high_ns


def test_from_a_run_without_workers() -> None:
    fitted = model(workers=0, step=50, job=1.0)
    found = predict(fitted, [LoaderChange(workers=workers) for workers in (0, 1, 4)])
    assert [row.step_ns / MS for row in found] == pytest.approx([50, 40, 10.5], rel=0.1)


def test_no_change_is_what_was_measured() -> None:
    fitted = model()
    assert one(fitted) == one(fitted, workers=2)
    assert one(fitted).low_ns == one(fitted).high_ns == 20 * MS
    assert saving(fitted, one(fitted)) == (0, 0)


def test_cores_are_the_limit_however_many_workers() -> None:
    fitted = model(cores=2, workers=2, step=25.5, job=2.0)
    found = predict(fitted, [LoaderChange(workers=workers) for workers in (4, 8)])
    assert [row.limited_by for row in found] == ["cores", "cores"]
    assert all(row.step_ns / MS == pytest.approx(25.5, rel=0.05) for row in found)


def test_a_faster_transform_takes_its_own_part_off() -> None:
    found = one(model(), faster=(("Blur", 4.0),))  # 20 of 40 ms become 5
    assert found.step_ns / MS == pytest.approx(25 / 2, rel=0.03)
    assert one(model(), faster=(("data.Blur", inf),)).step_ns / MS == pytest.approx(10, rel=0.03)


def test_an_infinite_factor_is_the_limit_of_large_ones() -> None:
    fitted = model(workers=1, step=40, own=1)
    large, limit = (one(fitted, faster=(("Blur", factor),)).step_ns for factor in (1e9, inf))
    assert large == pytest.approx(limit, abs=2)


def test_time_that_is_no_work_is_hidden_by_workers_not_by_cores() -> None:
    fitted = model(cores=1, cpu=6, collate=1, job=1.0, own=5)
    assert one(fitted, workers=3).step_ns / MS == pytest.approx(40 / 3, rel=0.1)


def test_workers_that_live_on_save_their_start() -> None:
    fitted = model(epoch=10, start=100)
    saved = saving(fitted, one(fitted, persistent=True))
    first = 40 + 1  # ms, to make and hand over a batch: no worker has one ready when an epoch begins
    middle = 3 * (100 - first) * MS / 37  # three starts in 37 steady steps
    unsure = 0.12 * 20 * MS  # the next run has another pace
    either = hypot(0.25 * middle, unsure)  # what the start takes is known to a quarter; errors have nothing in common
    assert saved == pytest.approx((middle - either, middle + either), rel=0.01)


def test_a_late_batch_holds_up_those_behind_it() -> None:
    """Each eighth batch takes 100 ms, the others 4: in the mean 16, which two workers make as fast as training goes."""
    known = pipeline(recorded(cpu=4, fetch=4, collate=1, own=10, step=21, job=0.8), 0)
    fetch = known.fetch.copy()
    fetch[::8, 1] = 100 * MS
    fitted = fit(replace(known, fetch=fetch, prefetch=1), Contention(value=0.0, low=0.0, high=0.0))
    now, ahead = predict(fitted, [LoaderChange(), LoaderChange(prefetch=16)])
    assert now.limited_by == "uneven batches"
    assert ahead.step_ns < 0.8 * now.step_ns


def test_other_programs_widen_the_range_or_forbid_it() -> None:
    def width(found: Prediction) -> float:
        return (found.high_ns - found.low_ns) / found.step_ns

    calm, noisy = one(model(), workers=4), one(model(others=3.0), workers=4)
    assert width(noisy) > 1.5 * width(calm)
    assert "other programs used 19 % of the cores" in noisy.basis
    with pytest.raises(MissingData, match="load from other programs"):
        model(others=9.0)


def test_other_programs_beside_the_trial_widen_the_range_or_forbid_it() -> None:
    known = pipeline(recorded(), 0)

    def tried(foreign: float) -> Prediction:
        return one(fit(known, NONE, replace(trial(), foreign=foreign)), workers=4)

    quiet, disturbed = tried(0.0), tried(4.0)  # of 16 cores
    assert disturbed.high_ns - disturbed.low_ns > 1.5 * (quiet.high_ns - quiet.low_ns)
    assert "other programs used 25 % of the cores" in disturbed.basis
    with pytest.raises(MissingData, match="no undisturbed trial in this run: other programs used the cores: remove"):
        tried(9.0)


def test_a_run_that_the_simulation_misses_is_refused() -> None:
    with pytest.raises(MissingData, match="off by"):
        model(fetch=10, cpu=10)  # nothing explains a wait of 10 ms in each step


def test_an_error_about_the_workers_is_none_about_training() -> None:
    """A tenth of the step is not explained: it stays where the workers are the limit, and not where training is."""
    fitted = model(workers=1, step=44)
    assert fitted.miss == pytest.approx(40 / 44 - 1, abs=0.01)
    two, many = predict(fitted, [LoaderChange(workers=2), LoaderChange(workers=8)])
    assert two.step_ns / MS == pytest.approx(22, rel=0.02)
    assert many.step_ns / MS == pytest.approx(10, rel=0.02)
    assert many.high_ns > 11 * MS


def test_a_device_that_may_have_worked_meanwhile_promises_nothing() -> None:
    known = pipeline(recorded(), 0)
    fitted = fit(replace(known, unseen=True))
    assert saving(fitted, one(fitted, workers=8))[0] == 0


def test_names_are_checked() -> None:
    fitted = model()
    assert names(fitted.pipeline) == (
        "fetch", "batch", "serialize", "step", "transform", "data.Blur", "sample", "data.Pictures", "collate",
        "data.collate",
    )  # fmt: skip
    with pytest.raises(MissingData, match=r"Resize among the recorded calls.*data\.Blur"):
        one(fitted, faster=(("Resize", 2.0),))


def test_a_step_that_no_longer_waits_is_shorter() -> None:
    """Recorded steps take 10 ms and have waited, which adds a quarter: they take 8 where the workers keep up."""
    fitted = fit(pipeline(recorded(workers=1, step=40), 0), NONE, trial(0.25, own=8))
    assert fitted.waited == pytest.approx(1.0, abs=0.02)
    assert fitted.step / MS == pytest.approx(8, rel=0.02)
    few, many = predict(fitted, [LoaderChange(workers=3), LoaderChange(workers=8)])
    assert few.step_ns / MS == pytest.approx(40 / 3, rel=0.02)
    assert many.step_ns / MS == pytest.approx(8, rel=0.02)
    (alone,) = predict(
        fit(pipeline(recorded(workers=0, step=50, job=1.0), 0), NONE, trial(0.25, own=8)), [LoaderChange(workers=8)]
    )
    assert alone.step_ns / MS == pytest.approx(8 + 1.2, rel=0.05), "a batch that training made itself is a wait too"


def test_without_a_trial_it_may_be_shorter_or_not() -> None:
    one_run = fit(pipeline(recorded(), 0), NONE)
    (found,) = predict(one_run, [LoaderChange(workers=8)])
    assert found.low_ns < 10 / 1.1 * MS
    assert found.high_ns > 10 * MS
    (tried,) = predict(model(), [LoaderChange(workers=8)])
    assert tried.high_ns - tried.low_ns < found.high_ns - found.low_ns
    assert (found.basis, tried.basis) == (
        "core contention estimated",
        "core contention measured by calibration",
    )


def test_the_steps_tell_how_many_of_the_fetches_are_late() -> None:
    """Of three recorded fetches one took 100 ms, the others 4; in truth it was each eighth."""
    known = pipeline(recorded(cpu=4, fetch=4, collate=1, own=10, step=21.3, job=0.8, workers=1), 0)
    three = np.array([[4.0, 4.0], [4.0, 4.0], [4.0, 100.0]]) * MS
    fitted = fit(replace(known, fetch=three.repeat(8, axis=0), sampled=True), NONE)
    late = fitted.pipeline.fetch[:, 1] > 50 * MS
    assert float(late.mean()) == pytest.approx(1 / 8, abs=0.02)
    (found,) = predict(fitted, [LoaderChange(workers=1, prefetch=16)])
    assert found.low_ns <= 16 * MS <= found.high_ns, "a fetch in the mean"


def test_a_mean_fetch_that_is_known_well_stays() -> None:
    """The simulated step is off by a sixth, and no choice of fetches that are all alike would correct it."""
    with pytest.raises(MissingData, match="off by"):
        model(fetch=33, cpu=33, workers=1, step=40)


def test_the_step_lies_between_what_the_run_and_the_trial_measured() -> None:
    """The machine was at another pace in the trial: a job has the one as well as the other."""
    fitted = fit(pipeline(recorded(workers=1, step=40), 0), NONE, trial(own=14.4))
    (many,) = predict(fitted, [LoaderChange(workers=8)])
    assert many.step_ns / MS == pytest.approx(12, rel=0.02)
    assert one(fitted).step_ns == 40 * MS


def test_a_run_and_its_trial_both_know_the_calls() -> None:
    """Half of a fetch of 40 ms in the one, and nine tenths in the other."""
    known = pipeline(recorded(workers=1, step=40), 0)
    more = tuple(replace(call, cpu=0.9 if call.stage == "transform" else 0.05) for call in known.calls)
    fitted = fit(known, NONE, replace(trial(), calls=more))
    assert one(fitted, faster=(("Blur", 2.0),)).step_ns / MS == pytest.approx(40 * 0.65, rel=0.02)
    assert fit(replace(known, calls=()), NONE, replace(trial(), calls=more)).pipeline.calls == more, "none was recorded"


def test_calls_that_only_one_of_a_run_and_its_trial_has() -> None:
    read, blur, rare = (Call(stage=name, name=name, cpu=0.5, other=0.5) for name in ("read", "blur", "rare"))
    trial_read, trial_rare = replace(read, cpu=0.8, other=0.0), replace(rare, cpu=0.2, other=1.0)
    found = {call.name: (call.cpu, call.other) for call in both((read, blur), (trial_read, trial_rare))}
    assert found == {
        "read": (pytest.approx(0.65), 0.5),  # a file that is in memory takes no other time
        "blur": (0.25, 0.5),
        "rare": (pytest.approx(0.1), 0.0),
    }


def test_large_samples_are_so_by_their_bytes() -> None:
    """200,000 numbers of a byte each are no half MiB; where none were recorded they have four each."""

    def sizes(size: int | None) -> dict[str, float]:
        run, synth = recorded(), Synth()
        synth.add("transform_sizes", pid="100", loader=0, name="data.Blur", before=200_000, after=50_000, bytes=size)
        known = Run({**run.tables, "transform_sizes": synth.run().optional("transform_sizes")}, run.path)
        return {call.name: call.sample for call in pipeline(known, 0).calls if call.sample}

    assert sizes(200_000) == {"data.Blur": 200_000}
    assert sizes(None) == {"data.Blur": 800_000}


def test_calls_beside_one_with_large_samples_get_shorter_without_it() -> None:
    """Half of a fetch of 40 ms is smoothing: without it the other half takes three tenths of that half less."""
    known = pipeline(recorded(workers=1, step=40, own=1), 0)

    def without(size: float) -> Prediction:
        sized = tuple(replace(call, sample=size if call.stage == "transform" else 0.0) for call in known.calls)
        return one(fit(replace(known, calls=sized), NONE, trial(own=1)), faster=(("Blur", inf),))

    assert without(100_000).step_ns / MS == pytest.approx(20, rel=0.02)
    assert without(1_000_000).step_ns / MS == pytest.approx(20 * (1 - 0.3 * 0.5), rel=0.02)


def test_smaller_batches_are_copied_and_touched_in_less_time() -> None:
    """20 MB that training touches first take 4 of its 10 ms; making a batch of an eighth takes 36 ms and not 40."""
    copies = "torch.utils.data._utils.collate.default_collate"
    known = replace(pipeline(recorded(), 0), size=20_000_000)
    calls = tuple(replace(call, name=copies if call.stage == "collate" else call.name) for call in known.calls)
    fitted = fit(replace(known, calls=calls), NONE, trial())
    few, many = predict(fitted, [LoaderChange(faster=(("batch", 8.0),), workers=workers) for workers in (2, 8)])
    assert few.step_ns / MS == pytest.approx((40 - 4 * 7 / 8) / 2, rel=0.02)
    assert many.step_ns / MS == pytest.approx(10 - 4 * 7 / 8, rel=0.05)


def test_a_trial_tells_what_the_device_did_during_the_waits() -> None:
    """Training keeps the device busy for 18 of 20 ms, while it waits for 10 of them: more workers win 2 ms."""
    known = replace(pipeline(recorded(), 0), unseen=True)
    fitted = fit(known, NONE, trial(own=18, device=True))
    (found,) = predict(fitted, [LoaderChange(workers=8)])
    assert found.step_ns / MS == pytest.approx(18, rel=0.02)
    assert not fitted.pipeline.unseen


def test_work_that_moves_into_training() -> None:
    """Half of a fetch of 40 ms becomes 3 ms of a step that takes 10; on a device it needs no core."""
    moved = LoaderChange(faster=(("Blur", inf),), moved=3 * MS)
    few, many = predict(model(workers=1, step=40), [moved, replace(moved, workers=8)])
    assert few.step_ns / MS == pytest.approx(20, rel=0.02), "workers are the limit"
    assert many.step_ns / MS == pytest.approx(13, rel=0.02)
    one_core = pipeline(recorded(workers=1, step=50, cores=1), 0)
    computed, offloaded = (
        case_of(fitted, moved, draw_replica(fitted, 0))
        for fitted in (fit(replace(one_core, device=device), NONE, trial()) for device in (False, True))
    )
    assert computed.step == offloaded.step
    assert computed.step_cpu - offloaded.step_cpu == pytest.approx(3 * MS)


def test_batches_of_another_size() -> None:
    """A fetch of 40 ms becomes one of 80, a step of 10 ms one of 17 to 24."""
    fitted = model(step=40, workers=1)
    twice = [one(fitted, batch_size=16, workers=workers) for workers in (1, 2, 16)]
    assert [found.step_ns / MS for found in twice] == pytest.approx([80, 40, 19.5], rel=0.05)
    assert twice[2].low_ns / MS <= 17.5
    assert twice[2].high_ns / MS >= 23.5
    half = one(fitted, batch_size=4)
    assert half.step_ns / MS == pytest.approx(20, rel=0.02)
    assert one(fitted, batch_size=8) == one(fitted)


def test_how_a_short_step_and_that_of_a_device_grow_is_not_known() -> None:
    short = pipeline(recorded(workers=1, step=40, own=2, cores=200), 0)
    device = replace(pipeline(recorded(workers=1, step=40, cores=200), 0), device=True)
    for known in (short, device):
        fitted = fit(known, NONE)
        found = one(fitted, batch_size=32, workers=64)
        assert found.low_ns <= fitted.step * 1.2
        assert found.high_ns >= fitted.step * 3.8


def test_batches_of_an_own_sampler_have_no_size_that_could_be_another() -> None:
    with pytest.raises(MissingData, match="leave out --batch-size"):
        one(model(batch_size=None), batch_size=16)


def test_it_is_the_same_every_time() -> None:
    changes = [LoaderChange(workers=workers) for workers in range(17)]
    assert predict(model(others=1.0), changes) == predict(model(others=1.0), changes)
