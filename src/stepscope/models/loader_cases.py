"""What to simulate for a change of a recorded input pipeline, and the law that names its limit."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.core.errors import MissingData
from stepscope.models.calibration import ColdCacheSlowdown
from stepscope.models.fetch_parts import Call
from stepscope.models.loader_simulation import Case, simulate
from stepscope.models.pipeline import FRESH, Pipeline

__all__ = [
    "AS_RECORDED",
    "REPLICAS",
    "Contention",
    "Draw",
    "LoaderChange",
    "LoaderModel",
    "busy_cores",
    "case_of",
    "different",
    "draw_replica",
    "drawn",
    "law",
    "limit",
    "longest",
    "names",
    "sizes",
    "times_of",
]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderChange:
    """What is different. None and nothing: as it was recorded."""

    workers: int | None = None
    prefetch: int | None = None
    batch_size: int | None = None  # samples in a batch: steps are then of so many
    faster: tuple[tuple[str, float], ...] = ()
    """Pairs (name, factor): a stage (sample, transform, decode, read, label, collate, fetch: the whole of it,
    serialize, step: what the training process does) or a class, function or label, in full or its last part, whose own
    time is divided by the factor; infinity leaves it out. `batch` divides the bytes of a batch: what torch's own
    collating, serializing and the first touch by training take."""
    persistent: bool = False  # workers last from epoch to epoch
    moved: float = 0.0  # ns of work on a batch that training does besides; with a device it is taken to run there


AS_RECORDED = LoaderChange()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """By what part CPU times grow with each busy core more: a value and its range."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoaderModel:
    """A pipeline whose simulation was fitted to it; times in ns."""

    pipeline: Pipeline
    contention: Contention
    cold_cache_slowdown: ColdCacheSlowdown
    off: float  # part of the time off the CPU in a fetch that is no wait for a core
    cpu_contention: float  # factor of the waits for a core
    step: float
    """What the training process does with a batch where it has all cores it wants and has not waited."""
    waited: float  # part of the recorded steps that waited
    hold: float  # for so long a worker at its next batch lets the training process wait for one that is ready
    miss: float  # relative error of the simulated step
    tried: bool  # a trial measured `cold_cache_slowdown`
    disturbed: float = 0.0  # part of the cores that other programs used in the run or the trial, whichever was more
    here: float | None = None
    """Wall time of a batch that the training process made itself in the trial, with its own threads; None: none."""


HALF = 64  # batches of a simulation, drawn once and made twice: its second half counts, and is to be of the known mean
BATCHES = 2 * HALF  # in the second half what was made ahead is used up, for 16 workers too
REPLICAS = 12
WHOLE = {"serialize": ("serialize",), "step": ("step",), "fetch": ("cpu", "other"), "batch": ("serialize", "touch")}
UNEVEN = 1.2  # of the law: batches are taken in order, and one that is late holds up those behind it
CPU_CONTENTION = 1.5  # factor either way: how cores are divided with other numbers of threads; 1.0 to 1.9 were seen
KEPT_BUSY = 0.95  # of the cores: jobs with more threads than these had 94 to 96 % of two
MOST_FIRST_TOUCH = 0.5  # of the step: it does more with a batch than to look at it
TRANSFER_COST = 1_200_000  # ns: taking a batch from a worker, where none was recorded; 0.8 to 1.6 ms were measured
FEEDING = 1_000_000  # ns: handing over a small batch, where none was recorded; a large one is copied once more
BESIDE = (
    0.2,
    0.4,
)  # of the part of a fetch that is left out, others of its calls get shorter: its memory filled the caches
LARGE = 512 * 1024  # bytes of a sample, half of the cache of a core: from here on that was measured
GROWS, LONG_GROWS = (0.0, 0.5, 1.0), (0.7, 0.95, 1.4)
"""By what part of a step its length grows with one batch more of samples: least, usual, most; the second where it takes
LONG on the CPU.

Training in one process, three series with a quarter to four times of 16 samples: of steps of 14 to 19 ms
(convolutions, a transformer) 0.8 to 1.2 with more samples and 0.8 to 1.5 with fewer; in one series of steps of 1 and
2 ms (linear layers) 0.2 to 0.6, of 0.2 ms 0.04. A device may have idled, or not.
"""
LONG = 5_000_000  # ns
THREADED = 0.25  # the part by which a fetch without workers, which may use all cores, is expected to differ at most
SEVERAL = 2  # threads that a fetch without workers may use: with two, operators took 0.5 to 0.9 of the time of one
MADE_HERE = 0.1  # the part by which it is assumed to differ where a trial made some


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """What a replica is made of."""

    batches: Floats  # rows (CPU time, wall time)
    contention: float
    cpu_contention: float
    cold_cache_slowdown: float
    transfer_cost: float = 1.0  # factor of what is new with the first worker and was not recorded
    threaded: float = 1.0  # factor of fetches that move into or out of workers
    beside: float = sum(BESIDE) / 2  # calls get shorter by this part of one that fills the caches and is left out
    first_touch_cost: float = 1.0  # factor of what the first touch of a batch takes
    growing: float = 0.5  # 0 to 1: where in its range the growth of a step with its samples is


def draw_replica(model: LoaderModel, replica: int) -> Draw:
    """Each uncertain thing has its whole range spread evenly over the replicas, so that their median is right."""
    contention, cpu_contention, transfer_cost, threaded, cold_cache_slowdown, beside, first_touch_cost, growing = (
        (float(np.random.default_rng(seed).permutation(REPLICAS)[replica]) + 0.5) / REPLICAS for seed in range(8)
    )
    return Draw(
        batches=drawn(model.pipeline, replica),
        contention=_within(model.contention, contention),
        cold_cache_slowdown=_within(model.cold_cache_slowdown, cold_cache_slowdown),
        cpu_contention=model.cpu_contention * CPU_CONTENTION ** (2 * cpu_contention - 1),
        transfer_cost=2 ** (2 * transfer_cost - 1),
        threaded=float(np.interp(threaded, (0, 0.5, 1), _elsewhere(model))),
        beside=float(np.interp(beside, (0, 1), BESIDE)),
        first_touch_cost=2 ** (2 * first_touch_cost - 1),
        growing=growing,
    )


def _within(known: Contention | ColdCacheSlowdown, part: float) -> float:
    return float(np.interp(part, (0, 0.5, 1), (known.low, known.value, known.high)))


def _elsewhere(model: LoaderModel) -> tuple[float, float, float]:
    """What CPU time a fetch takes where it moves into or out of workers, of what was recorded: least, usual, most.
    Workers have one thread for operators; which of its calls use more where there are more only a trial tells."""
    pipeline = model.pipeline
    threads = min(pipeline.threads, SEVERAL)
    if not pipeline.workers:
        return 1 - THREADED, 1.0, max(1 + THREADED, threads)
    if model.here is None:
        return min(1 - THREADED, 1 / threads), 1.0, 1 + THREADED
    cpu, other = (float(part.mean()) for part in _apart(pipeline.fetch))
    made = max(0.0, model.here - model.off * other) / max(cpu, 1.0)
    return (1 - MADE_HERE) * made, made, (1 + MADE_HERE) * made


def drawn(pipeline: Pipeline, seed: int) -> Floats:
    """Recorded batches drawn anew: (CPU time, wall time). Their means are the recorded.

    Where each batch was recorded, in runs of consecutive ones. Else the next recorded one came many batches later, and
    all lengths are drawn as often as they were recorded, in any order.
    """
    generator = np.random.default_rng(seed)
    recorded = len(pipeline.fetch)
    if pipeline.sampled:
        by_length = pipeline.fetch[np.argsort(pipeline.fetch[:, 1], kind="stable")]
        places = ((np.arange(HALF) + generator.random()) * recorded / HALF).astype(np.int64)
        batches = generator.permutation(by_length[places])
    else:
        length = max(1, min(8, recorded // 4))
        starts = generator.integers(0, recorded, -(-HALF // length))
        batches = pipeline.fetch[(starts[:, None] + np.arange(length)).reshape(-1)[:HALF] % recorded]
    return np.tile(_of_mean(batches, pipeline.fetch), (2, 1))


def _of_mean(batches: Floats, recorded: Floats) -> Floats:
    """With the mean CPU and other time of the recorded: the step without a change is known, and goes with these."""
    scaled = [
        part * (float(known.mean()) / max(float(part.mean()), 1.0))
        for part, known in zip(_apart(batches), _apart(recorded), strict=True)
    ]
    return np.stack([scaled[0], scaled[0] + scaled[1]], axis=1)


def _apart(rows: Floats) -> tuple[Floats, Floats]:
    """CPU time and other time."""
    return rows[:, 0], rows[:, 1] - rows[:, 0]


def case_of(model: LoaderModel, change: LoaderChange, draw: Draw) -> Case:
    """What to simulate for a change."""
    pipeline = model.pipeline
    workers = pipeline.workers if change.workers is None else change.workers
    scale = _scales(pipeline, change.faster, draw.beside)
    elsewhere = draw.threaded if bool(workers) != bool(pipeline.workers) else 1.0
    size = sizes(pipeline, change)
    cpu = draw.batches[:, 0] * scale["cpu"] * elsewhere * size
    other = (draw.batches[:, 1] - draw.batches[:, 0]) * model.off * scale["other"] * size
    if pipeline.workers:
        feed, taking = pipeline.feed or 0.0, pipeline.transfer_cost
    else:
        feed, taking = draw.transfer_cost * (FEEDING + pipeline.collate), draw.transfer_cost * TRANSFER_COST
    awake = (1 + model.cold_cache_slowdown.value * model.waited) / (
        1 + draw.cold_cache_slowdown * model.waited
    )  # the recorded step is known
    untouched = (1 - scale["touch"]) * min(draw.first_touch_cost * FRESH * pipeline.size, MOST_FIRST_TOUCH * model.step)
    own = (model.step * awake - (untouched if pipeline.workers else 0.0)) * scale["step"]
    own *= _grown(model, size, draw.growing)
    added = change.moved + (taking if workers else 0.0)
    return Case(
        workers=workers,
        prefetch=pipeline.prefetch if change.prefetch is None else change.prefetch,
        fetch=np.stack([cpu, other], axis=1),
        feed=feed * scale["serialize"],
        step=own + added,
        step_cpu=_computing(model, own) + added - (change.moved if pipeline.device else 0.0),
        cores=pipeline.cores,
        foreign=pipeline.foreign or 0.0,
        contention=draw.contention,
        at=busy_cores(pipeline),
        cpu_contention=draw.cpu_contention,
        cold_cache_slowdown=draw.cold_cache_slowdown,
        kept=KEPT_BUSY,
        hold=model.hold,
    )


def _computing(model: LoaderModel, own: float) -> float:
    """CPU time of what takes the training process `own` where it has all cores it wants.

    It is the recorded one, without what waiting adds: sharing a core makes a step longer, and takes no CPU time. No
    more cores are kept busy than the process has threads.
    """
    pipeline = model.pipeline
    recorded = pipeline.own if pipeline.own_cpu is None else pipeline.own_cpu
    fresh = recorded / (1 + model.cold_cache_slowdown.value * model.waited)
    busy = max(float(pipeline.threads), recorded / max(pipeline.own, 1.0))
    return min(fresh * own / max(model.step, 1.0), own * min(busy, pipeline.cores))


def different(pipeline: Pipeline, change: LoaderChange) -> LoaderChange:
    """A change without the settings that the recorded loader has already."""
    return replace(
        change,
        workers=None if change.workers == pipeline.workers else change.workers,
        prefetch=None if change.prefetch == pipeline.prefetch else change.prefetch,
        batch_size=None if change.batch_size == pipeline.batch_size else change.batch_size,
    )


def sizes(pipeline: Pipeline, change: LoaderChange) -> float:
    """Samples in a batch, in times of those recorded. Raises MissingData where that is not known."""
    if change.batch_size is None:
        return 1.0
    if not pipeline.batch_size:
        raise MissingData("size of a batch", how="the loader has a batch sampler of its own: leave out --batch-size")
    return change.batch_size / pipeline.batch_size


def _grown(model: LoaderModel, size: float, growing: float) -> float:
    """A step with `size` times of its samples, in times of the recorded."""
    long = not model.pipeline.device and model.step >= LONG
    return float(max(0.0, 1 + (size - 1) * np.interp(growing, (0, 0.5, 1), LONG_GROWS if long else GROWS)))


def names(pipeline: Pipeline) -> tuple[str, ...]:
    """What `LoaderChange.faster` may name."""
    calls = (name for call in pipeline.calls for name in (call.stage, call.name))
    return tuple(dict.fromkeys(("fetch", "batch", "serialize", "step", *calls)))


def _scales(pipeline: Pipeline, faster: tuple[tuple[str, float], ...], beside: float) -> dict[str, float]:
    """What is left of the CPU and other time of a fetch, of serializing, of touching a batch and of the step."""
    left = {"cpu": 1.0, "other": 1.0, "serialize": 1.0, "step": 1.0, "touch": 1.0}
    saved: dict[Call, float] = {}
    for name, factor in faster:
        part = 1 / factor
        if name in WHOLE:
            for one in WHOLE[name]:
                left[one] *= part
        found = _named(pipeline, name)
        if not found and name not in WHOLE:
            raise MissingData(f"{name} among the recorded calls", how=f"name one of {', '.join(names(pipeline))}")
        saved |= {call: 1 - (1 - saved.get(call, 0.0)) * part for call in found}
    calls = _less(pipeline, saved, beside)
    left["cpu"], left["other"] = left["cpu"] * calls[0], left["other"] * calls[1]
    return {key: max(0.0, value) for key, value in left.items()}


def _named(pipeline: Pipeline, name: str) -> list[Call]:
    """The calls that a change of this name makes faster; a smaller batch those that do nothing but copy it."""
    if name == "batch":
        return [call for call in pipeline.calls if call.copies]
    if name in WHOLE:
        return []  # the whole of it, though a call may have its name
    return [call for call in pipeline.calls if name in (call.stage, call.name, call.name.rpartition(".")[2])]


def _less(pipeline: Pipeline, saved: dict[Call, float], beside: float) -> tuple[float, float]:
    """What is left of the CPU and other time of a fetch when each of the calls takes less by a part of its time.

    What is left of the others is shorter besides where a call with large samples takes less: with one that converts,
    scales or smooths a whole picture before it is cut, and behind the cut, in turn in one process, they took less CPU
    time by a fifth to two fifths of what that was of all, with samples from LARGE on.
    """
    cpu = 1 - sum(part * call.cpu for call, part in saved.items())
    other = 1 - sum(part * call.other for call, part in saved.items())
    large = sum(part * call.cpu for call, part in saved.items() if call.sample >= LARGE)
    unchanged = sum(call.cpu for call in pipeline.calls if call not in saved)
    return cpu - beside * large * unchanged, other


def busy_cores(pipeline: Pipeline) -> float:
    """Cores that were busy on average; without a record, one of each worker and the training process."""
    job = float(pipeline.workers + 1) if pipeline.job is None else pipeline.job
    return max(1.0, min(pipeline.cores, job + (pipeline.foreign or 0.0)))


def times_of(cases: list[Case]) -> Floats:
    """Mean interval of steps of each case, ns a batch."""
    times = np.array([_alone(case) for case in cases])
    served = [place for place, case in enumerate(cases) if case.workers]
    if served:
        chosen = [cases[place] for place in served]
        times[served] = simulate(chosen).intervals(chosen)
    return times


def _alone(case: Case) -> float:
    """Without workers a step is the sum of making a batch and using it."""
    cpu, other = case.fetch.mean(axis=0)
    parallel = case.step_cpu / max(case.step, 1.0)
    step = case.step * (1 + case.cold_cache_slowdown)  # making a batch empties the caches as waiting for it does
    working = step * min(1.0, parallel)
    return float(cpu * _slower(case, 1.0) + other + working * _slower(case, max(1.0, parallel)) + step - working)


def _slower(case: Case, wanted: float) -> float:
    """By how much work takes longer than measured where this process alone wants `wanted` cores."""
    busy = min(case.cores, wanted + case.foreign)
    dearer = (1 + case.contention * max(busy - 1, 0.0)) / (1 + case.contention * max(case.at - 1, 0.0))
    return dearer * (1 + case.cpu_contention * max(0.0, (wanted + case.foreign) / case.cores - 1))


def limit(case: Case, expected: float) -> str:
    """The largest term of the law, or `uneven batches` where a batch is `expected` to take longer than all of them."""
    if not case.workers:
        return "no workers"
    most = longest(case)
    return "uneven batches" if most != "cores" and expected > UNEVEN * law(case)[most] else most


def longest(case: Case) -> str:
    """The largest term of the law."""
    terms = law(case)
    return max(terms, key=lambda term: terms[term])


def law(case: Case) -> dict[str, float]:
    """What a step takes at least, ns a batch, for each of the things that limit it."""
    cpu, other = case.fetch.mean(axis=0)
    left = max(case.cores - case.foreign, case.cores / 2)
    feeding = case.feed if case.workers else 0.0
    return {
        "training": case.step,
        "workers": float(cpu + other) / max(1, case.workers) + (0.0 if case.workers else case.step),
        "cores": float(cpu + feeding + case.step_cpu) / left,
    }
