"""The input pipeline for which training waits, fitted: what the rules about it have in common.

Its questions exclude each other by what was measured: are the workers busy or do they stand idle; do they compute or
wait; would more of them be enough; and if not, which part takes the most CPU time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

import polars as pl

from stepscope.analyses.bound.lib.input_waits import MIN_SHARE
from stepscope.analyses.host.core_waits import core_waits
from stepscope.analyses.input_pipeline.lib.loader_facts import MOST_WORKERS
from stepscope.analyses.input_pipeline.lib.worker_calls import of_training
from stepscope.analyses.input_pipeline.loader_transforms import loader_transforms
from stepscope.analyses.input_pipeline.loader_workers import loader_workers
from stepscope.analyses.lib.library_code import is_installed
from stepscope.core.errors import MissingData
from stepscope.core.finding import Evidence, Gain, Place
from stepscope.core.run import Run
from stepscope.models.loader_model import LoaderChange, LoaderModel, Prediction, fit, predict
from stepscope.models.longest_waits import longest_waits
from stepscope.models.pipeline import Pipeline, pipeline

__all__ = [
    "COMPUTING",
    "FULL",
    "MAX_IDLE",
    "MIN_BUSY",
    "NEARLY",
    "InputStall",
    "LoadingStage",
    "busy_share",
    "ceiling",
    "cores",
    "described",
    "enough_workers",
    "faster",
    "gain",
    "heaviest",
    "input_stall",
    "making",
    "part_ceiling",
    "part_of_lines",
    "partly_faster",
    "pays",
    "short",
    "stage_evidence",
    "waiting_evidence",
]

MAX_IDLE = 0.5  # of a fetch: from half of it on the workers wait for something, and that is what to fix
NEARLY = 0.03  # of the step: fewer workers or batches ahead that are as good but for this are better, both take memory
FULL = 0.9  # of the cores in use: what is left does not feed another worker
COMPUTING = ("cores", "workers", "no workers")  # limits of a step that less work in a batch would lift
MIN_BUSY = 0.8  # of the workers' time: with less they stand idle, and more of them would too
TRIED = (1, 2, 3, 4, 6, 8, 10, 12, 14, MOST_WORKERS)  # workers: a tenth more or less makes no difference
CURVE = (2.0, 4.0, 10.0)  # times as fast: worth the trouble, likely, and what compiled code reached
MODEL = 0.04  # of the step, on both sides: simulated settings were measured up to 0.03 outside of their range
_COLLATE = "torch.utils.data._utils.collate."


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadingStage:
    """A stage of making a batch with its name, its `cpu` and `idle` time of a batch in ns, its `share` of the CPU time
    of making it, and the user's own place where it is defined."""

    stage: str
    name: str
    cpu: float
    idle: float
    share: float
    place: Place | None

    @property
    def copies(self) -> bool:
        """Whether it does nothing but copy: serializing, and torch's own collating, which fills shared memory."""
        return self.stage == "serialize" or (self.stage == "collate" and self.name.startswith(_COLLATE))

    @property
    def library(self) -> str | None:
        """The library's function or class that it is; None where it is the user's own, or torch's copying."""
        return self.name if self.stage in ("read", "decode", "transform") and self.place is None else None

    @property
    def called(self) -> str:
        """What its author calls it: `Resize`, or for a data set's own code `Photos.__getitem__`."""
        return (
            f"{short(self.name)}.__getitem__"
            if self.stage == "sample" and self.name != self.stage
            else short(self.name)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputStall:
    """The pipeline of the rank that waits longest; `ranks` wait alike. Times in ns.

    `wait` is what a `step` waits for data, both as in `bound` where training waits. `now` is the step's length with
    workers that last: what changes are compared with, as the start of workers is another rule's. `busy` is the part of
    their time in which the workers made batches, 1 without workers; `computing`, `idle` and the wait for a core are
    parts of a fetch: idle is neither CPU time nor a wait for a core. `best` are the fewest workers that are nearly as
    good as any number, None where more save too little; `limited_by` is what limits a step with them. `parts` are the
    largest first.
    """

    ranks: tuple[int, ...]
    wait: float
    step: float
    now: int
    model: LoaderModel
    busy: float
    computing: float
    idle: float
    best: Prediction | None
    limited_by: str
    parts: tuple[LoadingStage, ...]

    @property
    def idlest(self) -> LoadingStage:
        """The part that waits longest, for no core."""
        return max(self.parts, key=lambda part: part.idle)

    @property
    def data_set(self) -> Place | None:
        """Where the user's own data set makes a sample; None where that is not known."""
        return next((part.place for part in self.parts if part.stage == "sample" and part.place), None)


def input_stall(run: Run) -> InputStall | None:
    """The pipeline that training waits for, None where no rank waits for MIN_SHARE of its steps.

    Raises MissingData where waits or spans were not recorded, or the model does not describe them.
    """
    return run.once(_compute)


def _compute(run: Run) -> InputStall | None:
    culprits = longest_waits(run)
    if not culprits:
        return None
    worst = culprits[0]
    rank = worst.rank
    measured = pipeline(run, rank)
    if _wait(measured) <= MIN_SHARE * measured.step:
        return None  # it waits for the start of workers
    ranks = tuple(sorted(row.rank for row in culprits))
    return _described(run, measured, ranks, wait=worst.wait, step=worst.step)


def described(run: Run, rank: int) -> InputStall:
    """The pipeline of a rank, whether training waits for it or not. Raises MissingData as `input_stall`."""
    measured = pipeline(run, rank)
    return _described(run, measured, (rank,), wait=_wait(measured), step=measured.step)


def _described(run: Run, measured: Pipeline, ranks: tuple[int, ...], *, wait: float, step: float) -> InputStall:
    rank = measured.rank
    cpu, wall = (float(mean) for mean in measured.fetch.mean(axis=0))
    idle = _idle(run, measured, cpu, wall)
    model = fit(measured)
    lasting = LoaderChange(persistent=True)
    now, *tried = predict(model, [lasting, *(replace(lasting, workers=workers) for workers in _more(model))])
    best = _best(model, now, tried)
    return InputStall(
        ranks=ranks,
        wait=wait,
        step=step,
        now=now.step_ns,
        model=model,
        busy=busy_share(run, rank) if measured.workers else 1.0,
        computing=cpu / wall,
        idle=idle / wall,
        best=best,
        limited_by=(best or now).limited_by,
        parts=_parts(run, model, cpu, idle),
    )


def _wait(measured: Pipeline) -> float:
    """What a step waits for batches, without the start of workers."""
    return measured.step - measured.own * measured.batches


def _more(model: LoaderModel) -> tuple[int, ...]:
    now = model.pipeline.workers
    return tuple(sorted({workers for workers in (*TRIED, now + 1) if now < workers <= MOST_WORKERS}))


def _best(model: LoaderModel, now: Prediction, tried: Sequence[Prediction]) -> Prediction | None:
    measured = model.pipeline
    if measured.job is not None and measured.job + (measured.foreign or 0.0) > FULL * measured.cores:
        return None
    least = min((row.step_ns for row in tried), default=0)
    best = next((row for row in tried if row.step_ns <= (1 + NEARLY) * least), None)
    return best if best is not None and _pays(model, now.step_ns, best) else None


def _pays(model: LoaderModel, now: int, prediction: Prediction) -> bool:
    sure = model.pipeline.unseen or prediction.high_ns < now
    return sure and now - prediction.step_ns >= MIN_SHARE * now


def enough_workers(found: InputStall | None) -> Prediction | None:
    """How many workers would be enough; None where they stand idle, or more of them save too little."""
    return None if found is None or found.busy < MIN_BUSY else found.best


def faster(names: Sequence[str], factors: Sequence[float]) -> tuple[LoaderChange, ...]:
    """Changes in which all of these take a part of their time, one for each factor."""
    return tuple(LoaderChange(faster=tuple((name, factor) for name in names), persistent=True) for factor in factors)


def pays(found: InputStall, prediction: Prediction) -> bool:
    """Whether a change saves MIN_SHARE of the step, and surely something where the run can tell."""
    return _pays(found.model, found.now, prediction)


def gain(found: InputStall, changes: Sequence[LoaderChange], basis: str, beyond: float = 0.0) -> Gain:
    """What is saved per step, from the least with any of the changes to the most; the start of workers apart.

    `beyond` of the step may be saved on top, by what the simulation does not know.
    """
    rows = predict(found.model, changes)
    least, most = (
        max(0, found.now - end) for end in (max(row.high_ns for row in rows), min(row.low_ns for row in rows))
    )
    wait = round(found.now * found.wait / found.step)
    if not any(change.faster for change in changes):
        least, most = max(0, least - round(MODEL * found.now)), most + round(MODEL * found.now)
    most += round(beyond * found.now)
    if not any(_frees_cores(found, change) for change in changes):
        least, most = min(least, wait), min(most, wait)
    most = min(most, found.now)
    if most > wait * (1 + NEARLY):
        basis = f"{basis}, freeing cores for training"
    return Gain(
        low_ns=least,
        high_ns=most,
        step_ns=found.now,
        basis=f"simulated: {basis} ({rows[0].basis})",
        confidence="structural",
        pool="data-wait",
    )


def ceiling(found: InputStall, changes: Callable[[float], LoaderChange]) -> Gain:
    """What is saved per step without some code, which `changes` makes k times as fast; and at k = CURVE.

    No replacement saves more, so that the likeliest value counts, where other gains have the end of their range.
    """
    gone, *rows = predict(found.model, [changes(factor) for factor in (inf, *CURVE)])
    most = max(0, found.now - gone.step_ns)
    told = gain(found, (changes(inf),), "without this code")
    saved = (min(max(0, found.now - row.step_ns), most) for row in rows)
    curve = tuple(zip(CURVE, saved, strict=True))
    return replace(told, low_ns=min(told.low_ns, most), high_ns=most, curve=curve)


def part_ceiling(found: InputStall, part: LoadingStage) -> Gain:
    """`ceiling` of one stage of making a batch."""
    return ceiling(found, lambda factor: faster((part.name,), (factor,))[0])


def part_of_lines(found: InputStall, part: LoadingStage, share: float) -> float:
    """How much of a part is in sampled lines with this `share`, which is of all the time in which a batch is made."""
    made = float(found.model.pipeline.fetch[:, 1].mean())
    return min(1.0, share * made / max(part.cpu + part.idle, 1.0))


def partly_faster(part: LoadingStage, of_part: float, factor: float) -> LoaderChange:
    """That much of a part `factor` times as fast."""
    left = 1 - of_part * (1 - 1 / factor)
    return LoaderChange(faster=((part.name, 1 / left if left else inf),), persistent=True)


def _frees_cores(found: InputStall, change: LoaderChange) -> bool:
    """Whether computing may end sooner, too: loading works less, or in fewer processes. Else no more than the wait is
    saved."""
    fewer = change.workers is not None and change.workers < found.model.pipeline.workers
    return fewer or bool(change.faster or change.moved or change.batch_size)


def heaviest(found: InputStall) -> LoadingStage | None:
    """The part that takes the most CPU time, where computing limits the steps and no number of workers hides it.

    None where the run is too disturbed to promise that leaving it out saves anything.
    """
    uneven = found.limited_by == "uneven batches" and found.busy >= MIN_BUSY  # with idle workers, prefetching helps
    if found.idle >= MAX_IDLE or (found.limited_by not in COMPUTING and not uneven):
        return None
    part = found.parts[0]
    (without,) = predict(found.model, faster((part.name,), (inf,)))
    return part if pays(found, without) else None


def short(name: str) -> str:
    """The last word of a dotted name: `Resize` of `torchvision.transforms.Resize`."""
    return name.rsplit(".", 1)[-1]


def stage_evidence(found: InputStall, part: LoadingStage, *causes: Evidence) -> tuple[Evidence, ...]:
    """What a part takes, figures of its cause, and the cores there are for it."""
    source = "loader_stages" if part.name == part.stage else "loader_transforms"
    return (
        Evidence(label=f"{short(part.name)} CPU time per batch", value=part.cpu, unit="ns", source=source),
        *causes,
        Evidence(label="share of loading CPU", value=part.share, unit="ratio", source=source),
        cores(found.model.pipeline),
        Evidence(label="CPU-bound share", value=found.computing, unit="ratio", source=source),
        *waiting_evidence(found),
    )


def making(found: InputStall) -> Evidence:
    """What a worker needs for a batch."""
    made = float(found.model.pipeline.fetch[:, 1].mean())
    return Evidence(label="batch load time", value=made, unit="ns", source="loader_stages")


def cores(measured: Pipeline) -> Evidence:
    """Cores used of the cores that the rank may use; only the latter where nobody watched."""
    if measured.job is None:
        return Evidence(label="cores", value=measured.cores, unit="count", source="core_waits")
    used = measured.job
    return Evidence(label="cores this job uses", value=used, unit="count", source="core_waits", of=measured.cores)


def waiting_evidence(found: InputStall) -> tuple[Evidence, ...]:
    """What each finding about the pipeline rests on: the data wait, and the workers."""
    return (
        Evidence(
            label="data wait per step", value=found.wait, unit="ns", source="bound", share=found.wait / found.step
        ),
        Evidence(label="num_workers", value=found.model.pipeline.workers, unit="count", source="loaders"),
    )


def busy_share(run: Run, rank: int) -> float:
    """The part of their time in which the workers of a rank made batches. Raises MissingData without their spans."""
    rows = loader_workers(run).filter(of_training(run, rank))
    spent = {name: float(rows[name].sum()) for name in ("busy", "enqueueing", "idle_queue_full", "idle_out_of_order")}
    return spent["busy"] / (sum(spent.values()) or 1.0)


def _idle(run: Run, measured: Pipeline, cpu: float, wall: float) -> float:
    """The part of a fetch, ns, in which its process neither computed nor waited for a core.

    Waits for a core have to be known only where there is enough other time to matter.
    """
    if wall - cpu < MAX_IDLE * wall:
        return max(0.0, wall - cpu - (measured.waited or 0.0))
    waited = measured.waited if measured.workers else _main_waited(run, measured.rank, wall)
    if waited is None:
        raise MissingData("waits of the loader for a core", how="run it on Linux with `stepscope run`")
    return max(0.0, wall - cpu - waited)


def _main_waited(run: Run, rank: int, wall: float) -> float | None:
    """What the training process, which makes the batches itself, waits for a core meanwhile: spread over its steps."""
    try:
        rows = core_waits(run).filter(pl.col("rank") == rank)
    except MissingData:
        return None
    return next((wall * row["waited"] / row["step"] for row in rows.iter_rows(named=True)), None)


def _parts(run: Run, model: LoaderModel, cpu: float, idle: float) -> tuple[LoadingStage, ...]:
    """Calls in a fetch, and serializing, by CPU time of a batch."""
    feed = model.pipeline.feed or 0.0
    whole = max(cpu + feed, 1.0)
    calls = [
        LoadingStage(
            stage=call.stage,
            name=call.name,
            cpu=call.cpu * cpu,
            idle=call.other * idle,
            share=call.cpu * cpu / whole,
            place=_place(run, model.pipeline.rank, call.stage, call.name),
        )
        for call in model.pipeline.calls
    ]
    sent = LoadingStage(stage="serialize", name="serialize", cpu=feed, idle=0.0, share=feed / whole, place=None)
    return tuple(sorted((*calls, sent), key=lambda part: (-part.cpu, part.name)))


def _place(run: Run, rank: int, stage: str, name: str) -> Place | None:
    """Where a call is defined, if that is no library's."""
    try:
        rows = loader_transforms(run)
    except MissingData:
        return None
    own = rows.filter((pl.col("rank") == rank) & (pl.col("stage") == stage) & (pl.col("name") == name))
    for file, line in own.select("file", "line").drop_nulls().iter_rows():
        if not is_installed(file):
            return Place(file=file, line=line, symbol=name)
    return None
