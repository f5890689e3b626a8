"""What one worker that is slower than the others costs: the loader simulated with each worker at its own pace.

Batches are taken in order and worker w makes each one whose number is w modulo the workers, so the model that draws
them at random does not describe such a run: here each worker draws from its own.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from stepscope.core.errors import MissingData
from stepscope.models.loader_cases import BATCHES, Draw, LoaderModel, case_of
from stepscope.models.loader_model import TOO_NOISY, LoaderChange, Prediction, evened, unfitted
from stepscope.models.loader_simulation import simulate
from stepscope.models.pipeline import Pipeline

__all__ = ["without_slow_worker"]

Floats = npt.NDArray[np.float64]


def without_slow_worker(measured: Pipeline, fetches: Mapping[int, Floats], slow: int) -> Prediction:
    """The mean step where the worker `slow` makes batches like those of the others.

    `fetches` has rows (CPU time, wall time, ns) of each worker. Raises MissingData where other programs had the cores.
    """
    if (measured.foreign or 0.0) > TOO_NOISY * measured.cores:
        raise MissingData("recording without load from other programs", how="stop other programs, then record it again")
    paces = [fetches[worker] for worker in sorted(fetches)]
    others = np.concatenate([rows for worker, rows in fetches.items() if worker != slow])
    alike = [others if worker == slow else fetches[worker] for worker in sorted(fetches)]
    # waits of a worker for a core are no waits for the others of this loader: it waits for something else, at a pace
    model = _as_measured(replace(unfitted(measured), off=1.0), _batches(paces, 0))
    return evened(model, lambda replica, then: _batches(alike if then else paces, replica))


def _as_measured(model: LoaderModel, batches: Floats) -> LoaderModel:
    """With the part of the steps that wait for the slow worker, and what the simulation gets wrong of their length."""
    draw = Draw(
        batches=batches,
        contention=model.contention.value,
        cpu_contention=1.0,
        cold_cache_slowdown=model.cold_cache_slowdown.value,
    )
    for _ in range(2):  # how many steps wait hangs on their length, and that on how many do
        case = case_of(model, LoaderChange(), draw)
        course = simulate([case])
        waited = float(course.waited[0])
        model = replace(model, waited=waited, step=model.pipeline.own / (1 + model.cold_cache_slowdown.value * waited))
    pipeline = model.pipeline
    return replace(model, miss=pipeline.batches * float(course.intervals([case])[0]) / pipeline.step - 1)


def _batches(paces: list[Floats], seed: int) -> Floats:
    """Batches in order, each drawn from those of its worker."""
    generator = np.random.default_rng(seed)
    rows: Floats = np.stack([generator.choice(paces[batch % len(paces)]) for batch in range(BATCHES)])
    return rows
