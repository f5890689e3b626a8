"""Training waits for data loading.

## What it finds
Steps that spend more than 5 % of their time in the training loader's `next()`. On a GPU only the part counts in which
the device has no work. Of several ranks it names the one with the longest wait. The other ranks wait for that rank in
backward, so it has the shortest backward.

## Why it costs time
Nothing computes until the batch arrives. The time is spent in the data set's `__getitem__`, its transforms, the collate
function, or in reading files. With `num_workers=0` this is in the training process. Else it is in workers that cannot
keep up.

## What to do
Start with one worker per core of each rank, up to 16. A trace does not record the number of cores: try 2, then more. If
all cores are busy, more workers do not help. Then make the slowest line of loading cheaper, process whole batches, or
store the data as the model needs it. A batch that loads in less than 2 ms is not worth a worker: its transfer costs as
much. Other threads in the workers (OpenCV, NumPy's linear algebra) are in the evidence. On a machine with many cores,
try one thread per worker. On two cores that was no faster.

## How the gain is predicted
High end: the wait, plus twice the time in which the main thread was ready but its own workers used the cores. Operator
threads wait as well, hence twice. That extra is at most 60 % of the rest of the step. Low end: what more workers save,
half of the wait, or less where cores are short. A step cannot be shorter than the job's CPU time per step divided by
the cores. That CPU time grows when cores share caches and memory. With recorded spans of loading, a simulation of the
loader narrows the range. `stepscope predict loader` shows it for each number of workers.

## When it is wrong
In a run of few steps, a loader that is slow once looks slow: at the start of its workers, or with a cold page cache. A
loader other than torch's DataLoader is not seen, nor one that prefetches in its own thread. If one process reads for
several ranks, the waiting rank is not the one to fix.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import polars as pl

from stepscope.analyses.bound.lib.input_waits import InputWait, input_waits
from stepscope.analyses.host.core_waits import UNCOUNTED
from stepscope.analyses.host.lib.loop_frames import LoopFrames, loop_frames
from stepscope.analyses.input_pipeline.lib.cpu_contention import core_wait_behind_workers
from stepscope.analyses.input_pipeline.lib.hot_lines import hot_lines
from stepscope.analyses.input_pipeline.lib.loader_facts import MOST_WORKERS, LoaderFacts, loader_facts
from stepscope.analyses.input_pipeline.lib.worker_calls import WorkerCall, of_training, slowest_calls
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Rule, Title, Value, at
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth
from stepscope.models.gap_places import gap_places
from stepscope.models.input_stall import FULL, short
from stepscope.models.loader_advice import WHOLE_BATCHES
from stepscope.models.loader_model import SLOWED, LoaderChange, fit, predict, saving
from stepscope.models.longest_waits import longest_waits
from stepscope.models.pipeline import pipeline

__all__ = ["RULE"]

HIDDEN = 0.5  # of the wait that a better loader may still have to pay for on the cores that train
CONTENTION = 1.15  # of CPU time over cores: the example with 2 workers on 2 cores took 1.12 of it
WORTH_A_WORKER = 2_000_000  # ns: handing a batch over from a worker costs 1 to 1.5 ms
AT_START = 0.5  # of all waiting in the first step of an epoch: the start of the workers is the problem
LINES = 3  # that are named: more would hide the one that matters
FIRST_TRY = 2  # workers where the number of cores is not known: two cores are everywhere
THREADED = 0.5  # of the CPU time of the thread that makes a batch: the sampler of lines takes far less
IDLE = 0.6  # of the cores in use: with less, loading does not wait for a core


def check(run: Run) -> Iterator[Finding]:
    waits = input_waits(run)
    culprits = longest_waits(run)
    if not culprits:
        return
    worst = culprits[0]
    facts = loader_facts(run, worst.rank)
    found = hot_lines(run, worst.rank)
    calls = slowest_calls(run, worst.rank)
    contended = core_wait_behind_workers(run, worst.rank)
    yield Finding(
        title=Title(
            "Training waits {} per step for data ({})",
            (Value(worst.wait, "ns"), Value(worst.wait / worst.step, "ratio")),
        ),
        cause="data-reading",
        evidence=(
            *_evidence(worst, culprits, waits, facts),
            *_slowest(calls),
            *_contention(contended),
            *_threads(run, worst.rank),
        ),
        gain=_narrowed(_gain(worst, facts, contended), run, worst, facts),
        advice=tuple(_advice(worst, facts, _cheaper(run, worst.rank, found), calls, gpu=has_gpu(run))),
        ranks=tuple(sorted(row.rank for row in culprits)),
        where=found
        or _inside(run, worst.rank, (*(call.place for call in calls), *facts.places))
        or tuple(gap_places(run, worst.rank, ("data_wait",), "the data wait")),
    )


def _inside(run: Run, rank: int, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """The busiest line of each function, too few samples of it as there may be; else where it is defined."""
    lines = (hot_lines(run, rank, place)[0] for place in places)
    return tuple(dict.fromkeys(lines))[:LINES]


_CHEAPER = "cheaper data loading, up to free, which also leaves its cores to training"
_FREED = "more workers, up to free data loading, which also leaves its cores to training"


def _gain(worst: InputWait, facts: LoaderFacts, contended: float) -> Gain:
    """From what workers save on the cores there are, to all that cheaper loading gives back."""
    low = worst.wait * HIDDEN
    if facts.used is not None:
        low = min(low, max(0.0, worst.step * (1 - CONTENTION * facts.used)))
    return Gain(
        low_ns=int(low),
        high_ns=int(worst.wait + min(UNCOUNTED * contended, SLOWED * (worst.step - worst.wait))),
        step_ns=int(worst.step),
        basis=_basis(worst, facts, contended),
        confidence="structural",
    )


def _basis(worst: InputWait, facts: LoaderFacts, contended: float) -> str:
    """What the range is of, as the first advice has it."""
    if facts.workers == 0 and worst.wait < WORTH_A_WORKER:
        return "half of the data wait, up to all of it"
    if not any(_settings(worst, facts, gpu=False)):
        return _CHEAPER if contended else "half of the data wait, up to all of it"
    return _FREED if contended else "more workers on these cores, up to no data wait"


def _narrowed(gain: Gain, run: Run, worst: InputWait, facts: LoaderFacts) -> Gain:
    """The same range as far as the model of the recorded loader has it too: it never becomes wider."""
    more = MOST_WORKERS if facts.suggested is None else max(facts.suggested, facts.workers or 0)
    free = LoaderChange(faster=(("fetch", inf), ("serialize", inf)))
    try:
        model = fit(pipeline(run, worst.rank))
        with_workers, without_loading = predict(model, [LoaderChange(workers=more), free])
    except MissingData:
        return gain
    low, high = saving(model, with_workers)[0], saving(model, without_loading)[1]
    low, high = max(low, gain.low_ns), min(high, gain.high_ns)
    if low > high or (low, high) == (gain.low_ns, gain.high_ns):
        return gain
    return replace(gain, low_ns=low, high_ns=high, basis=f"simulated from recorded batches: {gain.basis}")


def _slowest(calls: tuple[WorkerCall, ...]) -> tuple[Evidence, ...]:
    """How long the slowest call of the user's own takes where batches are made."""
    if not calls:
        return ()
    name = short(calls[0].place.symbol)
    return (
        Evidence(label=f"{name} time per call", value=calls[0].mean, unit="ns", source="loader_spans"),
        Evidence(label=f"{name} share of loading", value=calls[0].share, unit="ratio", source="loader_spans"),
    )


def _contention(contended: float) -> tuple[Evidence, ...]:
    if not contended:
        return ()
    label = "core wait behind workers"
    return (Evidence(label=label, value=contended, unit="ns", source="core_waits"),)


def _threads(run: Run, rank: int) -> tuple[Evidence, ...]:
    """CPU time of threads beside the one that makes the batches and the one that serializes them, where it is much."""
    spans = run.optional("loader_spans", "rank", "loader", "worker", "stage", "cpu", "process_cpu").filter(
        of_training(run, rank) & pl.col("worker").is_not_null()
    )
    means = spans.group_by("stage").agg(pl.col("cpu", "process_cpu").mean())
    cpu = {stage: mean or 0.0 for stage, mean, _ in means.iter_rows()}
    process = next((mean for stage, _, mean in means.iter_rows() if stage == "collate"), None)
    own = cpu.get("fetch", 0.0)
    if not own or process is None:
        return ()
    others = process - own - cpu.get("serialize", 0.0)
    if others < THREADED * own:
        return ()
    label = "extra-thread CPU per batch"
    return (Evidence(label=label, value=others, unit="ns", source="loader_spans"),)


def _evidence(
    worst: InputWait, culprits: tuple[InputWait, ...], waits: tuple[InputWait, ...], facts: LoaderFacts
) -> tuple[Evidence, ...]:
    rows = [
        Evidence(
            label="data wait per step",
            value=worst.wait,
            unit="ns",
            source="bound",
            share=worst.wait / worst.step,
        ),
    ]
    if worst.wait < worst.waiting:
        hidden = worst.waiting - worst.wait
        rows.append(Evidence(label="data wait while computing", value=hidden, unit="ns", source="bound"))
    if facts.described and facts.workers is not None:
        rows.append(Evidence(label="num_workers", value=facts.workers, unit="count", source="loaders"))
    victims = [row for row in waits if row not in culprits]
    if victims:
        slack = sum(row.backward for row in victims) / len(victims)
        rows += [
            Evidence(label="backward time", value=worst.backward, unit="ns", source="steady_steps"),
            Evidence(label="waiting ranks' backward time", value=slack, unit="ns", source="steady_steps"),
        ]
    return tuple(rows)


def _advice(
    worst: InputWait, facts: LoaderFacts, line: str, calls: tuple[WorkerCall, ...], *, gpu: bool
) -> Iterator[Advice]:
    """What to do; `line` says what to do about the slowest line, empty where none is known."""
    settings = tuple(_settings(worst, facts, gpu=gpu))
    yield from settings
    if not settings and (facts.busy is None or facts.busy >= FULL):
        full = "Make loading cheaper: the workers already use all cores"
        yield Advice(text=f"{line}: the workers already use all cores" if line else full)
    elif not settings:
        hardly = "Make loading cheaper: more workers will hardly help"
        yield Advice(text=f"{line}: more workers will hardly help" if line else hardly)
    elif line:
        yield Advice(text=line)
    if calls and not line:
        yield Advice(text=f"Make {short(calls[0].place.symbol)} cheaper first{at(calls[0].place)}")
    elif facts.places and facts.workers and not line:
        yield Advice(text=f"Time the parts of this code{at(facts.places[0])}, and do one-time work before training")
    if facts.described:
        yield Advice(text="Measure other loader settings", code=_TRIED, language="shell")


def _cheaper(run: Run, rank: int, found: tuple[Place, ...]) -> str:
    """What to do about the slowest line that does not contain the training loop; `trainer.fit(…)` is none to change."""
    if not found:
        return ""
    known: tuple[tuple[int, LoopFrames], ...] = run.per_rank(_loops, chain, only=rank)
    loops = dict(known)
    inside = next((place for place in found if rank not in loops or not loops[rank].hold(place)), None)
    if inside is None:
        return f"Make what this line loads cheaper{at(found[0])}, or load it once before training"
    return f"Make this line cheaper{at(inside)}, or do its work once before training"


def _loops(run: Run) -> tuple[tuple[int, LoopFrames], ...]:
    """For each rank the frames that contain its training loop."""
    samples = run.optional("stacks", "rank", "phase", "file", "line", "function", "frames", "weight")
    own = samples.filter(pl.col("file").is_not_null())
    return tuple((int(str(rank)), loop_frames(rows)) for (rank,), rows in own.group_by("rank", maintain_order=True))


def _settings(worst: InputWait, facts: LoaderFacts, *, gpu: bool) -> Iterator[Advice]:
    """Arguments of the loader to change; none where no setting helps."""
    workers, suggested = facts.workers, facts.suggested
    if worst.at_start >= AT_START and workers and not facts.persistent:
        yield Advice(
            text=f"Set persistent_workers=True{facts.at}: most of the wait is for starting workers",
            code=f"DataLoader(..., num_workers={workers}, persistent_workers=True)",
        )
    if workers == 0 and worst.wait < WORTH_A_WORKER:
        yield Advice(
            text=f"Index whole batches instead of single samples{facts.at}: loading is too short for workers",
            code=WHOLE_BATCHES,
        )
    elif suggested is None or workers is None or workers < suggested:
        yield _more_workers(facts, suggested, gpu=gpu)
    elif facts.busy is not None and facts.busy < IDLE and workers < MOST_WORKERS:
        yield _more_workers(facts, min(2 * workers, MOST_WORKERS), gpu=gpu)
        yield Advice(text="Check file and network waits of the workers: cores are idle meanwhile")


def _more_workers(facts: LoaderFacts, suggested: int | None, *, gpu: bool) -> Advice:
    workers = facts.workers
    tried = suggested or min(2 * workers if workers else FIRST_TRY, MOST_WORKERS)
    options = f"num_workers={tried}, persistent_workers=True" + (", pin_memory=True" if gpu else "")
    now = f", or double num_workers if it is {tried} or more" if workers is None else f"; now num_workers={workers}"
    basis = "" if suggested else ". Then try more, up to the number of cores"
    return Advice(text=f"Set {options}{facts.at}{now}{basis}", code=f"DataLoader(..., {options})")


_TRIED = "stepscope tune loader -- COMMAND"


def example(synth: Synth, fixed: bool) -> None:
    wait = 0 if fixed else 30
    synth.add(
        "loaders", loader=0, train=True, dataset="Pictures", num_workers=0, batch_size=32, pin_memory=False,
        persistent_workers=False,
    )  # fmt: skip
    length = 70 + wait
    for step in range(10):
        start = step * length
        synth.step(step, start, start + length, data_wait=wait, forward=25, backward=40, optimizer=5, samples=32)
        for tick in range(wait // 10):
            synth.sample(
                step, start + 10 * tick, 10, "data_wait", "/home/me/train.py", 12, function="__getitem__",
                text="return self.transform(picture)",
            )  # fmt: skip
        for tick in range(7):
            synth.sample(
                step, start + wait + 10 * tick, 10, "backward", "/home/me/train.py", 40, function="main",
                text="loss.backward()", call="torch/_tensor.py:600 backward", leaf="torch/autograd/graph.py:800 run",
            )  # fmt: skip


RULE = Rule(check=check, example=example)
