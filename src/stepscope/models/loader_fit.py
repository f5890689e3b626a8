"""Fits the simulation of a loader to what was recorded: to its mean step, fetch, waits for a core and for workers."""

from dataclasses import replace
from math import isclose

import numpy as np
import numpy.typing as npt

from stepscope.models.loader_cases import Draw, LoaderChange, LoaderModel, case_of, drawn
from stepscope.models.loader_simulation import simulate
from stepscope.models.pipeline import Pipeline

__all__ = ["nearest"]

Floats = npt.NDArray[np.float64]

ROUNDS, DAMPED = 16, 0.5  # of fitting: steps and waits depend on each other, and whole corrections would swing
SETTLED = 0.01  # relative error that is near enough
MANY = 0.05  # of the steps: where fewer wait, fetches do not tell in their length
ERRORS = 2.0  # standard errors of the mean of sampled fetches
MOST_TILT, DRAWN = 4.0, 1024  # e-fold for each standard deviation; rows that fetches are drawn from
HALVINGS = 30  # of what the tilt may be
_FITTED, SAME = (
    ("off", "cpu_contention", "step", "hold"),
    0.001,
)  # what fitting changes; relative change that changes nothing
NO_WAIT = 0.05  # of a fetch: shorter waits for a core tell nothing of how cores are divided
LEAST_CPU_CONTENTION, MOST_CPU_CONTENTION = 0.5, 2.5  # waits of more or less than this are no sharing of cores


def nearest(model: LoaderModel) -> LoaderModel:
    """Of some models, each corrected by what the simulation of the one before got wrong, that which errs least."""
    pipeline = model.pipeline
    found: list[tuple[float, LoaderModel]] = []
    for _ in range(ROUNDS):
        batches = drawn(model.pipeline, 0)
        cpu, wall = (float(mean) for mean in batches.mean(axis=0))
        draw = Draw(
            batches=batches,
            contention=model.contention.value,
            cpu_contention=model.cpu_contention,
            cold_cache_slowdown=model.cold_cache_slowdown.value,
        )
        case = case_of(model, LoaderChange(), draw)
        course = simulate([case])
        fetch, step = float(course.fetch[0]), float(course.step[0])
        miss = pipeline.batches * float(course.intervals([case])[0]) / pipeline.step - 1
        error = max(abs(miss), abs(fetch / wall - 1), abs(step / (pipeline.own + pipeline.transfer_cost) - 1))
        model = replace(model, waited=float(course.waited[0]), miss=miss)
        found.append((error, model))
        if error < SETTLED:
            break
        corrected = _with_hold(_with_step(_with_waits(model, cpu, wall, fetch), step), float(course.held[0]))
        if pipeline.sampled and model.waited > MANY and abs(miss) > SETTLED:
            corrected = replace(corrected, pipeline=_with_mean(pipeline, wall * (1 + miss) ** -DAMPED))
        same = corrected.pipeline is model.pipeline
        if same and all(isclose(getattr(corrected, name), getattr(model, name), rel_tol=SAME) for name in _FITTED):
            break  # at the end of what it may be
        model = corrected
    return min(found, key=lambda pair: pair[0])[1]


def _with_mean(pipeline: Pipeline, wall: float) -> Pipeline:
    """With a mean fetch nearer to `wall`, as far as that of the sampled ones is not known better.

    A few fetches are recorded of many, and whether a long one is among them is chance; that all steps took as long as
    they did is not.
    """
    rows, counts = np.unique(pipeline.fetch, axis=0, return_counts=True)
    times = pipeline.fetch[:, 1]
    error = ERRORS * times.std() * np.sqrt((counts**2).sum()) / counts.sum()
    wanted = float(np.clip(wall, times.mean() - error, times.mean() + error))
    chances = _tilted(rows[:, 1], counts / counts.sum(), wanted)
    return replace(pipeline, fetch=np.repeat(rows, np.round(DRAWN * chances).astype(np.int64), axis=0))


def _tilted(times: Floats, chances: Floats, mean: float) -> Floats:
    """Chances whose mean time is nearer to `mean`: each times e to a multiple of its time, so that they change least.

    That is exponential tilting: of all distributions of that mean it has the least Kullback-Leibler divergence.
    """
    spread = max(float(np.sqrt(np.average((times - times.mean()) ** 2, weights=chances))), 1.0)
    least, most = -MOST_TILT, MOST_TILT
    for _ in range(HALVINGS):
        tilt = (least + most) / 2
        tilted = chances * np.exp(tilt * (times - times.mean()) / spread)
        if np.average(times, weights=tilted) < mean:
            least = tilt
        else:
            most = tilt
    parts: Floats = tilted / tilted.sum()
    return parts


def _with_step(model: LoaderModel, simulated: float) -> LoaderModel:
    """A model whose simulated step comes nearer to the measured one."""
    pipeline = model.pipeline
    nearer = model.step * ((pipeline.own + pipeline.transfer_cost) / max(simulated, 1.0)) ** DAMPED
    alone = 0.0 if pipeline.stood is None else pipeline.own - pipeline.stood
    least = max(alone, (pipeline.own_cpu or 0.0) / pipeline.cores)
    if pipeline.threads > 1 and pipeline.workers:
        least = 0.0  # one that waits for another keeps its core busy, and no clock tells
    return replace(model, step=min(max(nearer, least), pipeline.own))


def _with_hold(model: LoaderModel, simulated: float) -> LoaderModel:
    """A model whose workers let the training process wait more nearly as long as they did."""
    pipeline = model.pipeline
    if not model.hold:
        return model
    nearer = model.hold * (pipeline.held / max(simulated, 1.0)) ** DAMPED
    return replace(model, hold=min(nearer, float(pipeline.fetch[:, 1].max())))


def _with_waits(model: LoaderModel, cpu: float, wall: float, simulated: float) -> LoaderModel:
    """A model whose simulated fetches come nearer to the measured ones.

    Where the waits for a core were measured it divides the cores differently, else it calls more or less of the time
    off the CPU a wait for something else.
    """
    idle = max(wall - cpu, 1.0)
    if model.pipeline.waited is None:
        return replace(model, off=min(max(model.off + DAMPED * (wall - simulated) / idle, 0.0), 1.0))
    alone = cpu + idle * model.off
    if simulated - alone < NO_WAIT * wall:
        return model
    factor = (max(wall - alone, 0.0) / (simulated - alone)) ** DAMPED
    return replace(
        model, cpu_contention=min(max(model.cpu_contention * factor, LEAST_CPU_CONTENTION), MOST_CPU_CONTENTION)
    )
