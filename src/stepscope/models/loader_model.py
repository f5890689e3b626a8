"""Step time with another input pipeline, from one recorded run.

The law: a step takes at least as long as the training process works on it; as a fetch divided by the workers; and as
all CPU time of it divided by the cores. The largest of the three names the limit. The number and its range come from
the simulation (`loader_simulation`), with the recorded batches drawn anew in each replica, and relative to the same
replica without a change, so that what the simulation gets wrong in both cancels, as long as the limit stays.

How much slower work gets when more cores are busy, and how much longer a step takes that has waited, is not known from
one run: replicas take both from a wide range. A trial (`calibration`) measures the second.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import hypot

import numpy as np
import numpy.typing as npt

from stepscope.core.errors import MissingData
from stepscope.models.calibration import COLD_CACHE_SLOWDOWN, Calibration
from stepscope.models.fetch_parts import both
from stepscope.models.loader_cases import (
    AS_RECORDED,
    REPLICAS,
    Contention,
    LoaderChange,
    LoaderModel,
    case_of,
    different,
    draw_replica,
    law,
    limit,
    longest,
    names,
    sizes,
    times_of,
)
from stepscope.models.loader_fit import nearest
from stepscope.models.loader_simulation import Case
from stepscope.models.pipeline import Pipeline

__all__ = [
    "NOISY",
    "SLOWED",
    "Contention",
    "LoaderChange",
    "LoaderModel",
    "Prediction",
    "check_undisturbed",
    "evened",
    "fit",
    "names",
    "predict",
    "saving",
    "unfitted",
    "without_workers",
]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Mean step with a change, ns, and the range it is expected in.

    `limited_by`: training (the training process and its device), workers, cores, uneven batches (taken in order, a late
    one delays those behind it), or no workers (a batch is made, then used). `basis` says what the range rests on.
    """

    workers: int
    step_ns: int
    low_ns: int
    high_ns: int
    limited_by: str
    basis: str


UNKNOWN = Contention(value=0.04, low=0.0, high=0.15)
"""From one to two busy cores, CPU times grew by 0 to 5 % in one example, by 0 to 3 % in another beside programs that
compute or copy memory, paused and resumed in turn, and by 12 % in a third; two threads of one core can cost more."""

_ANOTHER_TRIAL = (
    "other programs used the cores: remove trials/calibration in the run, then predict with --calibrate again"
)
OTHER_BATCHES = LoaderChange(faster=(("fetch", 1.0),))
"""Other batches, however they become so: what the simulation may get wrong counts as with any change."""

HELD = 0.02  # of the step: workers that answer sooner are as good as free
MAX_MISS = 0.15  # of the step: beyond it the simulation is not of this program
DOUBT = 0.05  # of the step: error of the simulation on emulated cores, median 4 %
CONTENDED, TRIED = 0.12, 0.06  # more where all cores are in use: median error 13 % from one run; and with a trial
SPREAD = 0.12  # of the step: three in four of 76 pairs of runs of one script, beside nothing else, differed by less
MOST_UNSURE = 0.15  # of the step, either way: errors with a trial, on a machine that does nothing else
RESTARTS = 0.25  # of what beginning an epoch takes: part of it is the end of the old workers, part a first batch
STARTING = 35_000_000  # ns: of one worker, by fork; 30 to 40 ms were measured
SLOWED = 0.6  # of what training does besides waiting: two threads beside workers on two cores took 2.2 times as long
MISS = 0.05  # of the step: from here on it is said
NOISY, TOO_NOISY = 0.05, 0.5  # of the cores in use by others: from the first on it is said, from the other refused


def fit(pipeline: Pipeline, contention: Contention = UNKNOWN, calibration: Calibration | None = None) -> LoaderModel:
    """Fit the model to a run, and to a trial of it.

    Raises MissingData where the run was too disturbed, or is of another kind.
    """
    model = _undisturbed(unfitted(pipeline, contention, calibration))
    if not pipeline.workers:
        return _agreed(replace(model, step=pipeline.own / (1 + model.cold_cache_slowdown.value)), calibration)
    fitted = nearest(model)
    if abs(fitted.miss) > MAX_MISS:
        raise MissingData(
            f"input pipeline that the model describes (its step without a change is off by {100 * fitted.miss:+.0f} %)",
            how="have settings tried instead: `stepscope tune loader -- COMMAND`; or record more steps, with --loader "
            "all, on a machine without other work",
        )
    return _agreed(fitted, calibration)


def check_undisturbed(pipeline: Pipeline, most: float = TOO_NOISY) -> None:
    """Raise MissingData where other programs used more than the part `most` of the cores while it was recorded."""
    if (pipeline.foreign or 0.0) > most * pipeline.cores:
        raise MissingData("recording without load from other programs", how="stop other programs, then record it again")


def _undisturbed(model: LoaderModel) -> LoaderModel:
    check_undisturbed(model.pipeline)
    if model.disturbed > TOO_NOISY:
        raise MissingData("undisturbed trial", how=_ANOTHER_TRIAL)
    return model


def _agreed(fitted: LoaderModel, calibration: Calibration | None) -> LoaderModel:
    """With a step between what the run makes of it and what the trial measured: one machine has more than one pace,
    and each of the two is one sample of it. The CPU time of a step stays the recorded one."""
    if calibration is None or calibration.device:
        return fitted
    return replace(fitted, step=(fitted.step * calibration.own) ** 0.5)


def unfitted(
    pipeline: Pipeline, contention: Contention = UNKNOWN, calibration: Calibration | None = None
) -> LoaderModel:
    """The model as measured, before any fitting: its steps as long as those that were recorded."""
    pipeline = pipeline if calibration is None else _with_trial(pipeline, calibration)
    waits = float((pipeline.fetch[:, 1] - pipeline.fetch[:, 0]).mean())
    return LoaderModel(
        pipeline=pipeline,
        contention=contention,
        cold_cache_slowdown=COLD_CACHE_SLOWDOWN if calibration is None else calibration.cold_cache_slowdown,
        off=1.0 if pipeline.waited is None else max(0.0, 1 - pipeline.waited / max(waits, 1.0)),
        cpu_contention=1.0,
        step=pipeline.own,
        waited=1.0,
        hold=2 * pipeline.held if pipeline.held > HELD * pipeline.step else 0.0,
        miss=0.0,
        tried=calibration is not None,
        disturbed=max(pipeline.foreign or 0.0, 0.0 if calibration is None else calibration.foreign) / pipeline.cores,
        here=None if calibration is None else calibration.here,
    )


def _with_trial(pipeline: Pipeline, calibration: Calibration) -> Pipeline:
    """What the trial knows besides: the calls of all batches, and what a device did during the waits."""
    pipeline = replace(pipeline, calls=both(pipeline.calls, calibration.calls))
    return replace(pipeline, own=calibration.own, unseen=False) if calibration.device else pipeline


def predict(model: LoaderModel, changes: Sequence[LoaderChange]) -> tuple[Prediction, ...]:
    """The mean step with each of the changes. Raises MissingData for a name that was not recorded."""
    draws = [draw_replica(model, replica) for replica in range(REPLICAS)]
    as_fitted = [replace(draw, cpu_contention=model.cpu_contention) for draw in draws]
    found: dict[LoaderChange, Prediction] = {}
    for chosen, alone in ((draws, False), (as_fitted, True)):  # without workers nobody is left to share cores with
        asked = [change for change in changes if (change.workers == 0) is alone]
        cases = [[case_of(model, change, draw) for draw in chosen] for change in (AS_RECORDED, *asked)]
        found |= zip(asked, _compared(model, asked, cases), strict=True) if asked else ()
    return tuple(found[change] for change in changes)


def without_workers(pipeline: Pipeline) -> Prediction:
    """The mean step where the training process makes its batches, for a run that the simulation does not describe: a
    sum of measured times, which is too long as far as workers slowed training. Raises MissingData as `fit`, but for a
    miss."""
    model = _undisturbed(unfitted(pipeline))
    (found,) = predict(model, [LoaderChange(workers=0, persistent=True)])
    slowed = SLOWED * pipeline.own * pipeline.batches
    return replace(found, low_ns=max(0, round(found.low_ns - slowed)))


def evened(model: LoaderModel, even: Callable[[int, bool], Floats]) -> Prediction:
    """The mean step where workers that differ get alike: `even` gives the batches of a replica (CPU time, wall time),
    batch b being one of worker b modulo their number, as they are and, with True, as they would be."""
    draws = [draw_replica(model, replica) for replica in range(REPLICAS)]
    cases = [
        [case_of(model, AS_RECORDED, replace(draw, batches=even(replica, then))) for replica, draw in enumerate(draws)]
        for then in (False, True)
    ]
    (found,) = _compared(model, (OTHER_BATCHES,), cases)
    return found


def _compared(
    model: LoaderModel, changes: Sequence[LoaderChange], cases: Sequence[Sequence[Case]]
) -> tuple[Prediction, ...]:
    """The mean step with each change; `cases` has a row without a change and one for each of them."""
    times = times_of([case for row in cases for case in row]).reshape(len(cases), REPLICAS)
    ratios = times[1:] / times[0] * _errors(model, times[0], cases)[:, None]
    return tuple(
        _prediction(model, change, row, (cases[0][0], case))
        for change, row, (case, *_) in zip(changes, ratios, cases[1:], strict=True)
    )


def _errors(model: LoaderModel, now: Floats, cases: Sequence[Sequence[Case]]) -> Floats:
    """What the simulated step without a change is of the recorded one, for each change that has another limit, else 1.

    What the simulation gets wrong about what limits the steps cancels only while that limits them.
    """
    pipeline = model.pipeline
    off = pipeline.batches * float(np.median(now)) / pipeline.step
    before = cases[0][0]
    return np.array([1.0 if _alike(before, row[0]) else off for row in cases[1:]])


def _alike(before: Case, after: Case) -> bool:
    """Whether the same limits both; steps without workers are a sum, of which nothing is simulated."""
    return longest(before) == longest(after) and bool(before.workers) == bool(after.workers)


def saving(model: LoaderModel, prediction: Prediction) -> tuple[int, int]:
    """Least and most time saved per step, ns; 0 where it may be slower."""
    now = model.pipeline.step + model.pipeline.restart
    return max(0, round(now - prediction.high_ns)), max(0, round(now - prediction.low_ns))


def _prediction(model: LoaderModel, change: LoaderChange, ratios: Floats, cases: Sequence[Case]) -> Prediction:
    """`cases` are those without and with the change."""
    pipeline, case = model.pipeline, cases[1]
    restarts = sizes(pipeline, change) * _restarts(pipeline, change, cases)  # an epoch has fewer steps
    middle, (low, high) = float(np.median(ratios)), _widened(model, change, ratios, cases)
    step, unsure = pipeline.step * middle + restarts, RESTARTS * abs(pipeline.restart - restarts)
    less, more = (hypot(pipeline.step * (end - middle), unsure) for end in (low, high))  # neither knows of the other
    longest = step + more
    if pipeline.unseen:  # the device may have had work while the host waited: nothing may be won
        longest = max(longest, pipeline.step + restarts + unsure)
    return Prediction(
        workers=case.workers,
        step_ns=round(step),
        low_ns=round(max(0.0, step - less)),
        high_ns=round(longest),
        limited_by=limit(case, pipeline.step * middle / pipeline.batches),
        basis=_basis(model),
    )


def _widened(model: LoaderModel, change: LoaderChange, ratios: Floats, cases: Sequence[Case]) -> tuple[float, float]:
    """Least and most, relative to the recorded step: what the replicas span, the errors known of the model, and that
    the next run has another pace."""
    doubt = _doubt(model, cases)
    if _same(model.pipeline, change):
        if not change.persistent or model.pipeline.persistent or not model.pipeline.restart:
            return float(ratios.min()), float(ratios.max())  # the recorded run itself
        doubt = DOUBT
    middle = float(np.median(ratios))
    low = min(float(ratios.min()) * (1 - doubt), middle * (1 - SPREAD))
    high = max(float(ratios.max()) * (1 + doubt), middle * (1 + SPREAD))
    assumed = not model.tried or _untried(model, change)
    if assumed or model.disturbed > NOISY or abs(model.miss) > MISS:
        return low, high
    return max(low, middle * (1 - MOST_UNSURE)), min(high, middle * (1 + MOST_UNSURE))


def _untried(model: LoaderModel, change: LoaderChange) -> bool:
    """Whether it has what the trial had not: batches of another size, or operators on samples that move to where they
    have another number of threads."""
    pipeline = model.pipeline
    moves = change.workers is not None and bool(change.workers) != bool(pipeline.workers)
    known = pipeline.threads == 1 or (model.here is not None and change.workers == 0)
    return sizes(pipeline, change) != 1 or (moves and not known)


def _restarts(pipeline: Pipeline, change: LoaderChange, cases: Sequence[Case]) -> float:
    """What beginning epochs takes of a mean step: starting the workers, each as long, and waiting for a first batch."""
    before, after = (pipeline.starts * float(case.fetch.sum(axis=1).mean() + case.feed) for case in cases)
    now, then = (case.workers for case in cases)
    if not then:
        return 0.0 if now else pipeline.restart
    if not now:
        return after + (0.0 if change.persistent else pipeline.starts * STARTING * then)
    starting = 0.0 if change.persistent else max(0.0, pipeline.restart - before) * then / now
    return starting + min(after, pipeline.restart)


def _same(pipeline: Pipeline, change: LoaderChange) -> bool:
    """Whether nothing but the start of the workers is different."""
    return replace(different(pipeline, change), persistent=False) == AS_RECORDED


def _doubt(model: LoaderModel, cases: Sequence[Case]) -> float:
    """Relative error to expect: of the simulation, of sharing cores, of this fit, and of other programs' load."""
    shared = max(law(case)["cores"] / max(law(case).values()) for case in cases)
    contended = TRIED if model.tried else CONTENDED
    return DOUBT + contended * shared + abs(model.miss) + min(model.disturbed, TOO_NOISY)


def _basis(model: LoaderModel) -> str:
    said = ["core contention measured by calibration" if model.tried else "core contention estimated"]
    if abs(model.miss) > MISS:
        said.append(f"simulation error on this run: {100 * abs(model.miss):.0f} %")
    if model.disturbed > NOISY:
        said.append(f"other programs used {100 * model.disturbed:.0f} % of the cores")
    if model.pipeline.unseen:
        said.append("device work during data waits not traced")
    return "; ".join(said)
