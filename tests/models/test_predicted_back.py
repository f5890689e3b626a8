"""Programs that are themselves simulated, recorded with one number of workers and predicted with others."""

from dataclasses import replace

import numpy as np
import pytest

from stepscope.models.calibration import Calibration, ColdCacheSlowdown
from stepscope.models.loader_cases import case_of, draw_replica
from stepscope.models.loader_model import LoaderChange, fit, predict
from stepscope.models.loader_simulation import Case, simulate
from stepscope.models.pipeline import Pipeline

MS = 1_000_000


def program(
    workers: int, seed: int, *, threads: float = 1, cpu: float, other: float, step: float, cores: float,
    contention: float, cpu_contention: float, cold_cache_slowdown: float, hold: float = 0.0,
) -> Case:  # fmt: skip
    """Uneven batches of `cpu` and `other` ms; a step of `step` ms in some threads that have a core each."""
    sizes = np.random.default_rng(seed).lognormal(-0.02, 0.2, 400)
    return Case(
        workers=workers, prefetch=2, fetch=np.stack([cpu * MS * sizes, other * MS * sizes], axis=1), feed=1.0 * MS,
        step=step * MS, step_cpu=threads * step * MS, cores=cores, contention=contention, cpu_contention=cpu_contention,
        cold_cache_slowdown=cold_cache_slowdown, hold=hold * MS,
    )  # fmt: skip


def recorded(case: Case) -> Pipeline:
    """What a recording of it holds: CPU times as they were with so many busy cores, and waits for a core."""
    course = simulate([case])
    step = float(course.intervals([case])[0])
    used = (case.fetch[:, 0].mean() + case.feed + case.step_cpu) / step
    dearer = 1 + case.contention * max(0.0, min(case.cores, used) - 1)
    cpu = case.fetch[:, 0] * dearer
    alone = cpu + case.fetch[:, 1]
    wall = alone * max(1.0, float(course.fetch[0]) / alone.mean())
    return Pipeline(
        rank=0, workers=case.workers, prefetch=2, persistent=False, batches=1.0, step=step, restart=0.0, starts=0.0,
        fetch=np.stack([cpu, wall], axis=1), waited=float(wall.mean() - alone.mean()), collate=0.0,
        feed=case.feed * dearer, transfer_cost=0.0, held=float(course.held[0]), own=float(course.step[0]),
        own_cpu=case.step_cpu * dearer, stood=None, cores=case.cores, job=min(case.cores, used * dearer), foreign=0.0,
        unseen=False, calls=(), threads=round(case.step_cpu / case.step),
    )  # fmt: skip


@pytest.mark.parametrize("own", [1, 2, 4])
@pytest.mark.parametrize(
    "facts",
    [
        {
            "cpu": 40,
            "other": 0,
            "step": 15,
            "cores": 2,
            "contention": 0.05,
            "cpu_contention": 1.2,
            "cold_cache_slowdown": 0.05,
        },
        {
            "cpu": 40,
            "other": 0,
            "step": 15,
            "cores": 8,
            "contention": 0.05,
            "cpu_contention": 1.0,
            "cold_cache_slowdown": 0.0,
        },
        {
            "cpu": 10,
            "other": 60,
            "step": 20,
            "cores": 2,
            "contention": 0.1,
            "cpu_contention": 1.5,
            "cold_cache_slowdown": 0.1,
        },
        {
            "cpu": 5,
            "other": 0,
            "step": 30,
            "cores": 2,
            "contention": 0.15,
            "cpu_contention": 1.0,
            "cold_cache_slowdown": 0.0,
        },
        {
            "cpu": 40,
            "other": 0,
            "step": 15,
            "cores": 8,
            "contention": 0.05,
            "cpu_contention": 1.0,
            "cold_cache_slowdown": 0.0,
            "hold": 6,
        },
        {
            "cpu": 60,
            "other": 0,
            "step": 20,
            "cores": 4,
            "contention": 0.0,
            "cpu_contention": 1.0,
            "cold_cache_slowdown": 0.0,
            "hold": 99,
        },
    ],
)
def test_the_range_holds_the_truth(own: int, facts: dict[str, float]) -> None:
    numbers = (1, 2, 3, 4, 8)
    model = fit(recorded(program(own, 0, **facts)))
    for found in predict(model, [LoaderChange(workers=number) for number in numbers]):
        case = program(found.workers, 1, **facts)
        truth = float(simulate([case]).intervals([case])[0])
        assert found.low_ns * 0.97 <= truth <= found.high_ns * 1.03, (found, truth)
        assert found.step_ns == pytest.approx(truth, rel=0.15)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("workers", [1, 4])
def test_waiting_for_a_core_takes_no_cpu_time(workers: int, threads: int) -> None:
    """A step of 15 ms takes longer beside workers that want all cores, and no more CPU time."""
    facts = {"other": 0, "step": 15, "cores": 2, "contention": 0.0, "cpu_contention": 1.0, "cold_cache_slowdown": 0.0}
    known = recorded(program(workers, 0, cpu=60, threads=threads, **facts))
    assert (known.own > 17 * MS) == (workers == 4 or threads == 2)
    model = fit(
        known,
        calibration=Calibration(
            own=15 * MS, cold_cache_slowdown=ColdCacheSlowdown(value=0.0, low=0.0, high=0.0), device=False
        ),
    )
    assert case_of(model, LoaderChange(), draw_replica(model, 0)).step_cpu == pytest.approx(threads * 15 * MS, rel=0.05)
    truth = program(workers, 1, cpu=15, threads=threads, **facts)
    (found,) = predict(model, [LoaderChange(faster=(("fetch", 4.0),))])
    assert found.step_ns == pytest.approx(float(simulate([truth]).intervals([truth])[0]), rel=0.2)


def test_a_step_is_no_shorter_than_it_was_without_its_waits_for_a_core() -> None:
    known = recorded(
        program(3, 0, cpu=40, other=0, step=15, cores=2, contention=0.0, cpu_contention=1.2, cold_cache_slowdown=0.0)
    )
    free = fit(known).step
    least = 0.9 * free + 0.1 * known.own
    assert free < least
    assert fit(replace(known, stood=known.own - least)).step >= least * 0.999
