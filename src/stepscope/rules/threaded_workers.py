"""Libraries in the workers compute with threads of their own, and the cores are full.

## What it finds
Training waits for batches for more than 5 % of its steps, all cores are in use, and threads of the workers beside
those that make and hand over batches take half as much CPU time as these, or more: the CPU time of a worker's
process, less that of its two threads. No number of workers hides it on the cores there are.

## Why it costs time
Each worker has a process of its own already. Where each of them also starts a thread for every core, there are many
times more threads than cores. A call is over when the last of its threads has had a core; until then the others
wait, or spin, which takes cores from workers and from training.

## What to do
One thread in each worker: torch sets that for its own operators, and NumPy (OpenBLAS, MKL), OpenCV and a
`torch.set_num_threads` of yours do not keep to it. If fewer workers than cores are enough, more threads in each of
them are another way to use the cores; not both.

## How the gain is predicted
The loader is simulated with less CPU time for a batch: of what the further threads take, from a third to nothing
stays. How much of it is work that the one thread then does itself is not known from one run; up to a third was
measured on two cores, where steps of 17 and 18 ms became 11. Threads of a team that is no larger than the cores spin
while they wait for each other, and so does the thread that makes the batch: then up to all of making a batch may go.
With two threads in each of two workers on two cores steps of 490 ms became 12. The range includes the known errors of
the simulation.

## When it is wrong
Threads that are no part of making a batch, such as those of a client that fetches ahead, count as well. Where the
cores are not full, more threads make a batch sooner, and nothing is said. Without a collate function
(`batch_size=None`) CPU times of processes are not recorded.
"""

from collections.abc import Iterator
from math import inf

import polars as pl

from stepscope.analyses._worker_calls import of_training
from stepscope.analyses.loader_stages import RECORD_LOADING
from stepscope.core.finding import Advice, Evidence, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.predict.loader_model import Change, predict
from stepscope.predict.pipeline import Pipeline
from stepscope.predict.waiting_input import (
    COMPUTING,
    WaitingInput,
    cores_for,
    cores_used,
    gain,
    making,
    pays,
    waiting_evidence,
    waiting_input,
)

__all__ = ["RULE"]

THREADED = 0.5  # of the CPU time of the thread that makes a batch: with less, one thread would be no better
FULL = 0.85  # of the cores in use: with less, further threads have cores that nobody else wants
STAYS = (0.33, 0.0)
"""Of the CPU time of further threads, what one thread then does itself: with 4 and 8 threads in each of 2 workers on 2
cores it was from less than a tenth to a third."""

ALL = Change(faster=(("fetch", inf),), persistent=True)
"""Threads of a team that is no larger than the cores spin while they wait for each other, and so does the one that
makes the batch: what of its time is work is not known. With 2 threads in each of 2 workers on 2 cores: a fiftieth."""

BESIDE = 2  # threads of a worker that belong to no team: the feeder, and stepscope's own that looks at lines


def check(run: Run) -> Iterator[Finding]:
    found = waiting_input(run)
    if found is None or found.limited_by not in COMPUTING:
        return
    measured = found.model.pipeline
    used = (measured.job or 0.0) + (measured.foreign or 0.0)
    if measured.further < max(THREADED * measured.alone, 1.0) or used < FULL * measured.cores:
        return
    threads = _threads(run, measured.rank)
    spins = threads is not None and threads - BESIDE <= measured.cores
    changes = (_with_one_thread(measured, STAYS[0]), ALL if spins else _with_one_thread(measured, STAYS[1]))
    if not pays(found, predict(found.model, changes)[1]):
        return
    yield Finding(
        title="Libraries in the workers compute with threads of their own",
        cause="configuration",
        evidence=_evidence(found, threads),
        gain=gain(found, changes, _BASIS[spins]),
        advice=_ADVICE,
        ranks=found.ranks,
        where=found.data_set,
    )


def _with_one_thread(measured: Pipeline, stays: float) -> Change:
    """A fetch that takes the CPU time of its own thread and a part of that of the others."""
    taken = float(measured.fetch[:, 0].mean())
    left = min(taken, measured.alone + stays * measured.further)
    return Change(faster=(("fetch", taken / max(left, 1.0)),), persistent=True)


def _evidence(found: WaitingInput, threads: int | None) -> tuple[Evidence, ...]:
    measured, source = found.model.pipeline, "loader_spans"
    rows = [
        *waiting_evidence(found),
        making(found),
        Evidence(label="mean CPU time of the thread that makes a batch", value=measured.alone, unit="ns",
                 source=source),
        Evidence(label="mean CPU time of further threads of a worker per batch", value=measured.further, unit="ns",
                 source=source),
    ]  # fmt: skip
    if measured.waited is not None:
        label = "mean wait of a worker for a core per batch"
        rows.append(Evidence(label=label, value=measured.waited, unit="ns", source="system"))
    if threads is not None:
        rows.append(Evidence(label="threads of a worker", value=threads, unit="count", source=source))
    return (*rows, cores_for(found), *cores_used(found))


def _threads(run: Run, rank: int) -> int | None:
    """The most threads of a worker when it handed over its first batch; None where nobody counted them."""
    spans = run.table("loader_spans", how=RECORD_LOADING).filter(of_training(run, rank))
    most = spans.filter(pl.col("stage") == "serialize")["count"].max()
    return most if isinstance(most, int) else None


_BASIS = {
    False: "one thread in each worker, assumed to do from a third to none of what the others did",
    True: "one thread in each worker; threads may spin while they wait, so from two thirds of what further ones take "
    "to all of making a batch",
}
_ADVICE = (
    Advice(
        text="Give each worker one thread",
        code="def one_thread(worker):  # DataLoader(..., worker_init_fn=one_thread)\n"
        "    torch.set_num_threads(1)\n"
        "    cv2.setNumThreads(0)  # OpenCV\n"
        "    threadpoolctl.threadpool_limits(1)  # OpenBLAS and MKL, which NumPy and SciPy compute with",
    ),
    Advice(
        text="Or from outside, where a device trains: the training process gets one thread, too",
        code="OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 python train.py",
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    """2 workers with 9 threads each on 2 cores: 51 ms of CPU time for a batch, 6 of them of its own thread, which
    alone needs 13; training needs 10 ms, and takes 18, or 13, with its waits for cores."""
    training, feed, length = 10.0, 1.0, (13.5 if fixed else 31.0)
    own = 13.0 if fixed else 18.0
    alone, further = (13.0, 0.0) if fixed else (6.0, 45.0)
    lasts = 13.0 if fixed else 60.0
    synth.add("meta", source="run.json", key="cores", value='{"effective": 2}')
    synth.add("loaders", loader=0, train=True, dataset="Pictures", num_workers=2, prefetch_factor=2)
    for step in range(40):
        at, worker = step * length, step % 2
        synth.step(step, at, at + length, data_wait=length - own, forward=own / 2, backward=own / 2)
        synth.span("sample", step, worker, at, at + lasts - 1, cpu=round((alone - 1) * MS), name="data.Pictures")
        synth.span("collate", step, worker, at + lasts - 1, at + lasts, cpu=MS,
                   process_cpu=round((alone + further + feed) * MS))  # fmt: skip
        synth.span("fetch", step, worker, at, at + lasts, cpu=round(alone * MS))
        synth.span("serialize", step, worker, at + lasts, at + lasts + feed, cpu=round(feed * MS),
                   count=None if step > 1 else 2 if fixed else 9)  # fmt: skip
        used = (alone + further + feed + training) / length
        for what, value in (("job CPU", used), ("other CPU", 0.0)):
            synth.add("system", time=round((at + length / 2) * MS), rank=None, what=what, value=value, unit="cores")


RULE = Rule(check=check, example=example, explains="input-bound", replaces=("slow-transform", "slow-collate"))
