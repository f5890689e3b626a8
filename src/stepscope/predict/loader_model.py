"""Step time with another input pipeline, from one recorded run.

The law: a step takes at least as long as the training process works on it; as a fetch divided by the workers; and as
all CPU time of it divided by the cores. The largest of the three names the limit. The number and its range come from
the simulation (`loader_simulation`), with the recorded batches drawn anew in each replica, and relative to the same
replica without a change, so that what the simulation gets wrong in both cancels.

How much dearer work gets when more cores are busy is not known from one run: replicas take it from a wide range, or, of
several runs with different workers, from near what `calibrate` found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.core.errors import MissingData
from stepscope.predict.loader_cases import (
    REPLICAS,
    Change,
    Contention,
    Draw,
    LoaderModel,
    busy_cores,
    case_of,
    draw_replica,
    drawn,
    law,
    limit,
    names,
    times_of,
)
from stepscope.predict.loader_simulation import Case, simulate
from stepscope.predict.pipeline import Pipeline

__all__ = ["Change", "Contention", "LoaderModel", "Prediction", "calibrate", "fit", "names", "predict", "saving"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Mean step with a change, ns, and the range it is expected in.

    `limited_by`: training (the training process and its device), workers, cores, uneven batches (taken in order, a late
    one holds up those behind it), or no workers (a batch is made, then used). `basis` says what the range rests on.
    """

    workers: int
    step_ns: int
    low_ns: int
    high_ns: int
    limited_by: str
    basis: str


UNKNOWN = Contention(value=0.1, low=0.0, high=0.3)
"""From one to two busy cores, CPU times grew by 0 to 5 % in one recorded example and by 12 % in another; two threads of
one core can cost more. Assumed where only one run is known."""

ROUNDS, DAMPED = 16, 0.5  # of fitting: steps and waits depend on each other, and whole corrections would swing
SETTLED = 0.01  # relative error that is near enough
NO_WAIT = 0.05  # of a fetch: shorter waits for a core tell nothing of how cores are divided
LEAST_CROWDING, MOST_CROWDING = 0.5, 2.5  # waits of more or less than this are no sharing of cores
MAX_MISS = 0.15  # of the step: beyond it the simulation is not of this program
DOUBT = 0.05  # of the step: error of the simulation on emulated cores, median 4 %
CROWDED_ONE_RUN, CROWDED = 0.12, 0.06  # more where all cores are in use: median error 13 % from one run
RESTARTS = 0.25  # of what beginning an epoch takes: part of it is the end of the old workers, part a first batch
STARTING = 35_000_000  # ns: of one worker, by fork; 30 to 40 ms were measured
MISS = 0.05  # of the step: from here on it is said
NOISY, TOO_NOISY = 0.05, 0.5  # of the cores in use by others: from the first on it is said, from the other refused


def fit(pipeline: Pipeline, contention: Contention = UNKNOWN) -> LoaderModel:
    """Fit the model to a run. Raises MissingData where the run was too disturbed, or is of another kind."""
    if (pipeline.foreign or 0.0) > TOO_NOISY * pipeline.cores:
        raise MissingData("undisturbed recording", how="other programs had the cores: stop them and record it again")
    waits = float((pipeline.fetch[:, 1] - pipeline.fetch[:, 0]).mean())
    off = 1.0 if pipeline.waited is None else max(0.0, 1 - pipeline.waited / max(waits, 1.0))
    model = LoaderModel(pipeline=pipeline, contention=contention, off=off, crowding=1.0, step=pipeline.own, miss=0.0)
    if not pipeline.workers:
        return model
    fitted = _nearest(model)
    if abs(fitted.miss) > MAX_MISS:
        raise MissingData(
            "input pipeline that the model describes (its step without a change is off by "
            f"{fitted.miss:+.0%})", how="record more steps on a machine without other work"
        )  # fmt: skip
    return fitted


def _nearest(model: LoaderModel) -> LoaderModel:
    """Of some models, each mended by what the simulation of the one before got wrong, that which errs least."""
    pipeline, batches = model.pipeline, drawn(model.pipeline, 0)
    cpu, wall = (float(mean) for mean in batches.mean(axis=0))
    found: list[tuple[float, LoaderModel]] = []
    for _ in range(ROUNDS):
        draw = Draw(batches=batches, contention=model.contention.value, crowding=model.crowding)
        case = case_of(model, Change(), draw)
        course = simulate([case])
        fetch, step = float(course.fetch[0]), float(course.step[0])
        miss = pipeline.batches * float(course.intervals([case])[0]) / pipeline.step - 1
        error = max(abs(miss), abs(fetch / wall - 1), abs(step / (pipeline.own + pipeline.handing) - 1))
        found.append((error, replace(model, miss=miss)))
        if error < SETTLED:
            break
        model = _with_step(_with_waits(model, cpu, wall, fetch), step)
    return min(found, key=lambda pair: pair[0])[1]


def _with_step(model: LoaderModel, simulated: float) -> LoaderModel:
    """A model whose simulated step comes nearer to the measured one."""
    pipeline = model.pipeline
    nearer = model.step * ((pipeline.own + pipeline.handing) / max(simulated, 1.0)) ** DAMPED
    least = (pipeline.own_cpu or 0.0) / pipeline.cores
    return replace(model, step=min(max(nearer, least), pipeline.own))


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
    return replace(model, crowding=min(max(model.crowding * factor, LEAST_CROWDING), MOST_CROWDING))


def predict(model: LoaderModel, changes: Sequence[Change]) -> tuple[Prediction, ...]:
    """The mean step with each of the changes. Raises MissingData for a name that was not recorded."""
    draws = [draw_replica(model, replica) for replica in range(REPLICAS)]
    cases = [[case_of(model, change, draw) for draw in draws] for change in (Change(), *changes)]
    times = times_of([case for row in cases for case in row]).reshape(len(cases), REPLICAS)
    ratios = times[1:] / times[0]
    return tuple(
        _prediction(model, change, row, (cases[0][0], case))
        for change, row, (case, *_) in zip(changes, ratios, cases[1:], strict=True)
    )


def calibrate(pipelines: Sequence[Pipeline]) -> Contention:
    """Contention from runs of one program with different workers: the CPU time of a fetch against busy cores.

    By least squares of cpu = alone · (1 + contention · (busy - 1)). Raises MissingData where the runs are too alike.
    """
    known = [one for one in pipelines if one.job is not None and one.workers]
    busy = np.array([busy_cores(one) for one in known])
    cpu = np.array([float(one.fetch[:, 0].mean()) for one in known])
    if len(known) < 2 or np.ptp(busy) < 0.2:
        raise MissingData("runs with different loads of the cores", how="record it with 1 worker and with more")
    slope, alone = np.polyfit(busy - 1, cpu, 1)
    value = float(np.clip(slope / max(alone, 1.0), 0.0, 1.0))
    residual = float(np.std(cpu - alone - slope * (busy - 1)) / max(alone, 1.0) / np.ptp(busy))
    spread = max(residual, 0.05)
    return Contention(value=value, low=max(0.0, value - spread), high=value + spread, runs=len(known))


def saving(model: LoaderModel, prediction: Prediction) -> tuple[int, int]:
    """Least and most time saved per step, ns; 0 where it may be slower."""
    now = model.pipeline.step + model.pipeline.restart
    return max(0, round(now - prediction.high_ns)), max(0, round(now - prediction.low_ns))


def _prediction(model: LoaderModel, change: Change, ratios: Floats, cases: Sequence[Case]) -> Prediction:
    """`cases` are those without and with the change."""
    pipeline, case = model.pipeline, cases[1]
    restarts = _restarts(pipeline, change, cases)
    middle, low, high = (float(value) for value in (np.median(ratios), ratios.min(), ratios.max()))
    doubt = 0.0 if _same(pipeline, change) else _doubt(model, cases)
    unsure = RESTARTS * abs(pipeline.restart - restarts)
    longest = pipeline.step * high * (1 + doubt)
    if pipeline.unseen:  # the device may have had work while the host waited: nothing may be won
        longest = max(longest, pipeline.step)
    return Prediction(
        workers=case.workers,
        step_ns=round(pipeline.step * middle + restarts),
        low_ns=round(pipeline.step * low * (1 - doubt) + max(0.0, restarts - unsure)),
        high_ns=round(longest + restarts + unsure),
        limited_by=limit(case, pipeline.step * middle / pipeline.batches),
        basis=_basis(model),
    )


def _restarts(pipeline: Pipeline, change: Change, cases: Sequence[Case]) -> float:
    """What beginning epochs takes of a mean step: starting the workers, each as long, and waiting for a first batch."""
    before, after = (pipeline.starts * float(case.fetch.sum(axis=1).mean() + case.feed) for case in cases)
    now, then = (case.workers for case in cases)
    if not then:
        return 0.0 if now else pipeline.restart
    if not now:
        return after + (0.0 if change.persistent else pipeline.starts * STARTING * then)
    starting = 0.0 if change.persistent else max(0.0, pipeline.restart - before) * then / now
    return starting + min(after, pipeline.restart)


def _same(pipeline: Pipeline, change: Change) -> bool:
    """Whether nothing but the start of the workers is different."""
    return replace(
        change,
        workers=None if change.workers == pipeline.workers else change.workers,
        prefetch=None if change.prefetch == pipeline.prefetch else change.prefetch,
        persistent=False,
    ) == Change()  # fmt: skip


def _doubt(model: LoaderModel, cases: Sequence[Case]) -> float:
    """Relative error to expect: of the simulation, of sharing cores, of this fit, and of other programs' load."""
    pipeline = model.pipeline
    shared = max(law(case)["cores"] / max(law(case).values()) for case in cases)
    crowded = CROWDED_ONE_RUN if model.contention.runs < 2 else CROWDED
    return DOUBT + crowded * shared + abs(model.miss) + min((pipeline.foreign or 0.0) / pipeline.cores, TOO_NOISY)


def _basis(model: LoaderModel) -> str:
    runs, noise = model.contention.runs, (model.pipeline.foreign or 0.0) / model.pipeline.cores
    said = [f"contention from {runs} runs" if runs > 1 else "one run: contention assumed"]
    if abs(model.miss) > MISS:
        said.append(f"the simulation of this very run is off by {model.miss:+.0%}")
    if noise > NOISY:
        said.append(f"other programs used {noise:.0%} of the cores")
    if model.pipeline.unseen:
        said.append("no trace tells what the device did meanwhile")
    return "; ".join(said)
