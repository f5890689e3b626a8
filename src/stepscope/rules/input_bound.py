"""Training waits for the next batch.

## What it finds
Steps that spend more than 5 % of their time inside the training loader's `next()`; on a GPU only the part of it in
which the device has no work. Of several ranks it names the one that waits longest: the others wait for it in backward,
so the rank with the least backward is the culprit.

## Why it costs time
Nothing computes while the batch is not there. The time is spent in the data set's `__getitem__`, its transforms, the
collate function, or in reading files; in the training process itself (`num_workers=0`) or in workers that cannot keep
up.

## What to do
Start with as many workers as there are cores for each rank, up to 16; a trace does not tell how many there are: try 2,
then more. If all cores are busy, more workers win nothing: make the slowest line of the loading cheaper, work on whole
batches, or store the data as the model needs it. Fetching a batch that takes less than 2 ms is not worth a worker,
whose hand-over costs as much. Where further threads of the workers compute (OpenCV, NumPy's linear algebra), the
evidence says how much: on a machine of many cores try one thread for each worker. On two cores that was no faster.

## How the gain is predicted
At most the wait, and twice the time in which the main thread could run but its own workers had the cores (its operator
threads wait as well), but of the rest of the step no more than 60 %: cheaper loading gives both back. The low end is
what more workers save: half of the wait, or less where the cores are needed. A step cannot get shorter than the CPU
time of the job in it divided by the cores, and that time grows when cores share caches and memory. Where spans of
loading were recorded, the range is narrowed by a simulation of the loader, which `stepscope predict loader` shows for
each number of workers.

## When it is wrong
A loader that is slow once, when its workers start, looks slow in a run of few steps; so does a cold page cache. A
loader that is not torch's DataLoader, or that prefetches in its own thread, is not seen at all. If one process reads
for several ranks, the rank that waits is not the one to mend.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import polars as pl

from stepscope.analyses._crowding import crowding
from stepscope.analyses._input_waits import InputWait, input_waits, longest_waits
from stepscope.analyses._loader_facts import MOST_WORKERS, LoaderFacts, loader_facts
from stepscope.analyses._work import has_gpu
from stepscope.analyses._worker_calls import WorkerCall, of_training, slowest_calls, slowest_lines
from stepscope.analyses.core_waits import UNCOUNTED
from stepscope.analyses.lines import lines
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.predict.loader_model import SLOWED, Change, fit, predict, saving
from stepscope.predict.pipeline import pipeline
from stepscope.predict.waiting_input import FULL

__all__ = ["RULE"]

HIDDEN = 0.5  # of the wait that a better loader may still have to pay for on the cores that train
CONTENTION = 1.15  # of CPU time over cores: the example with 2 workers on 2 cores took 1.12 of it
WORTH_A_WORKER = 2_000_000  # ns: handing a batch over from a worker costs 1 to 1.5 ms
AT_START = 0.5  # of all waiting in the first step of an epoch: the start of the workers is the problem
MIN_SAMPLES = 5  # fewer samples name no line
MIN_OF_WAIT = 0.1  # of the wait: a line with less is beside the point
LINES = 3
FIRST_TRY = 2  # workers where the number of cores is not known: two cores are everywhere
THREADED = 0.5  # of the CPU time of the thread that makes a batch: the sampler of lines takes far less
IDLE = 0.6  # of the cores in use: with less, loading does not wait for a core
_WRAPPERS = r"^(torch|tqdm|rich|accelerate|lightning|pytorch_lightning|ignite|fastprogress)/"  # of a loader in its loop


def check(run: Run) -> Iterator[Finding]:
    waits = input_waits(run)
    culprits = longest_waits(waits)
    if not culprits:
        return
    worst = culprits[0]
    facts = loader_facts(run, worst.rank)
    found = _lines(run, worst.rank) or slowest_lines(run, worst.rank)[:LINES]
    calls = slowest_calls(run, worst.rank)
    crowded = crowding(run, worst.rank)
    yield Finding(
        title="Training waits for the next batch",
        cause="data-reading",
        evidence=(
            *_evidence(worst, culprits, waits, facts),
            *_slowest(calls),
            *_crowding(crowded),
            *_threads(run, worst.rank),
        ),
        gain=_narrowed(_gain(worst, facts, crowded), run, worst, facts),
        advice=tuple(_advice(worst, facts, found, calls, gpu=has_gpu(run))),
        ranks=tuple(sorted(row.rank for row in culprits)),
        where=found or tuple(call.place for call in calls) or facts.places,
    )


def _gain(worst: InputWait, facts: LoaderFacts, crowded: float) -> Gain:
    """From what workers save on the cores there are, to all that cheaper loading gives back."""
    low = worst.wait * HIDDEN
    if facts.used is not None:
        low = min(low, max(0.0, worst.step * (1 - CONTENTION * facts.used)))
    return Gain(
        low_ns=int(low),
        high_ns=int(worst.wait + min(UNCOUNTED * crowded, SLOWED * (worst.step - worst.wait))),
        step_ns=int(worst.step),
        basis="from more workers on the cores there are, to all of the wait if loading itself gets cheaper",
        confidence="structural",
    )


def _narrowed(gain: Gain, run: Run, worst: InputWait, facts: LoaderFacts) -> Gain:
    """The same range as far as the model of the recorded loader has it too: it never becomes wider."""
    more = MOST_WORKERS if facts.suggested is None else max(facts.suggested, facts.workers or 0)
    free = Change(faster=(("fetch", inf), ("serialize", inf)))
    try:
        model = fit(pipeline(run, worst.rank))
        with_workers, without_loading = predict(model, [Change(workers=more), free])
    except MissingData:
        return gain
    low, high = saving(model, with_workers)[0], saving(model, without_loading)[1]
    low, high = max(low, gain.low_ns), min(high, gain.high_ns)
    if low > high or (low, high) == (gain.low_ns, gain.high_ns):
        return gain
    return replace(gain, low_ns=low, high_ns=high, basis=f"{gain.basis}; simulated from spans of loading")


def _slowest(calls: tuple[WorkerCall, ...]) -> tuple[Evidence, ...]:
    """How long the slowest call of the user's own takes where batches are made."""
    if not calls:
        return ()
    label = f"mean own time of {calls[0].stage} {calls[0].place.symbol}"
    return (
        Evidence(label=label, value=calls[0].mean, unit="ns", source="loader_spans"),
        Evidence(label="its share of making a batch", value=calls[0].share, unit="ratio", source="loader_spans"),
    )


def _crowding(crowded: float) -> tuple[Evidence, ...]:
    if not crowded:
        return ()
    label = "mean wait for a core that workers have"
    return (Evidence(label=label, value=crowded, unit="ns", source="core_waits"),)


def _threads(run: Run, rank: int) -> tuple[Evidence, ...]:
    """CPU time of threads beside the one that makes the batches and the one that serialises them, where it is much."""
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
    label = "mean CPU time of further threads of a worker per batch"
    return (Evidence(label=label, value=others, unit="ns", source="loader_spans"),)


def _evidence(
    worst: InputWait, culprits: tuple[InputWait, ...], waits: tuple[InputWait, ...], facts: LoaderFacts
) -> tuple[Evidence, ...]:
    rows = [
        Evidence(label="mean data wait per step", value=worst.waiting, unit="ns", source="steady_steps"),
        Evidence(label="share of the mean step", value=worst.waiting / worst.step, unit="ratio", source="steady_steps"),
    ]
    if worst.wait < worst.waiting:
        rows.append(Evidence(label="mean of it with an idle device", value=worst.wait, unit="ns", source="device"))
    if facts.described and facts.workers is not None:
        rows.append(Evidence(label="num_workers", value=facts.workers, unit="count", source="loaders"))
    victims = [row for row in waits if row not in culprits]
    if victims:
        slack = sum(row.backward for row in victims) / len(victims)
        rows += [
            Evidence(label="mean backward of this rank", value=worst.backward, unit="ns", source="steady_steps"),
            Evidence(label="mean backward of ranks that wait for it", value=slack, unit="ns", source="steady_steps"),
        ]
    return tuple(rows)


def _lines(run: Run, rank: int) -> tuple[Place, ...]:
    """Lines of the user's own that run inside next(), not the loop that calls it."""
    try:
        table = lines(run).filter((pl.col("rank") == rank) & (pl.col("phase") == "data_wait"))
    except MissingData:
        return ()
    loops = pl.col("text").fill_null("").str.contains(r"^\s*(async )?for ") & pl.col("call").str.contains(_WRAPPERS)
    inside = table.filter(~(pl.col("call").str.starts_with("torch/utils/data/") | loops).fill_null(False))
    grouped = inside.group_by("file", "line", "function", maintain_order=True).agg(
        pl.col("text").first(), pl.col("samples", "time").sum()
    )
    least = MIN_OF_WAIT * int(table["time"].sum())
    named = grouped.filter(
        (pl.col("samples") >= MIN_SAMPLES) & (pl.col("time") >= least) & pl.col("file").is_not_null()
    )
    rows = named.sort(["time", "file", "line"], descending=[True, False, False]).head(LINES).iter_rows(named=True)
    return tuple(
        Place(file=row["file"], line=row["line"], symbol=row["function"] or "", text=(row["text"] or "").strip())
        for row in rows
    )


def _advice(
    worst: InputWait, facts: LoaderFacts, found: tuple[Place, ...], calls: tuple[WorkerCall, ...], *, gpu: bool
) -> Iterator[Advice]:
    workers, suggested = facts.workers, facts.suggested
    if worst.at_start >= AT_START and workers and not facts.persistent:
        yield Advice(
            text="Most of the waiting is in the first step of an epoch, when workers start: keep them",
            code=f"DataLoader(..., num_workers={workers}, persistent_workers=True)",
        )
    if workers == 0 and worst.wait < WORTH_A_WORKER:
        yield Advice(
            text="A batch is fetched too quickly for a worker to pay: index whole batches instead of single samples",
            code=_BATCHED,
        )
    elif suggested is None or workers is None or workers < suggested:
        yield _more_workers(workers, suggested, gpu=gpu)
    elif facts.busy is not None and facts.busy < IDLE and workers < MOST_WORKERS:
        yield Advice(
            text="Cores are idle, so the workers wait for files or for the network: more of them can wait at once"
        )
        yield _more_workers(workers, min(2 * workers, MOST_WORKERS), gpu=gpu)
    elif facts.busy is None or facts.busy >= FULL:
        yield Advice(text="The workers already take all cores: make loading itself cheaper, more workers will not help")
    else:
        yield Advice(text="More workers will hardly help: make loading itself cheaper")
    if found:
        yield Advice(
            text="Make this line cheaper, do its work once before training, or do it for a whole batch at once"
        )
    elif calls:
        yield Advice(text="The first of these calls takes the most time of making a batch: make it cheaper first")
    elif facts.places and workers:
        yield Advice(text="This code runs in the workers: time its parts, and move what can be done once out of it")
    if facts.described:
        yield Advice(text="Have other settings of the loader tried and measured", code=_TRIED)


def _more_workers(workers: int | None, suggested: int | None, *, gpu: bool) -> Advice:
    tried = suggested or min(2 * workers if workers else FIRST_TRY, MOST_WORKERS)
    options = f"num_workers={tried}, persistent_workers=True" + (", pin_memory=True" if gpu else "")
    now = {None: "", 0: " (the training process loads every batch itself now)"}.get(
        workers, f" (num_workers={workers} now)"
    )
    basis = "" if suggested else f"; nothing tells how many cores there are: try {tried}, then more, up to that number"
    what = "Load batches in more worker processes" if workers else "Load batches in worker processes"
    return Advice(text=f"{what}{now}{basis}", code=f"DataLoader(..., {options})")


_TRIED = "stepscope tune loader -- COMMAND"
_BATCHED = """\
sampler = BatchSampler(RandomSampler(dataset), batch_size, drop_last=False)
DataLoader(dataset, sampler=sampler, batch_size=None)  # dataset[[3, 1, 2]] returns one batch"""


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
