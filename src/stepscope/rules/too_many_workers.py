"""The loader has more workers than it gains from: fewer, or none, are faster.

## What it finds
A simulation of this very loader with fewer workers, or with none, says that the step gets shorter by a tenth or more.
Either a batch is cheaper to make than to hand over, or the workers take cores that training computes on, in several
threads.

## Why it costs time
Each batch that a worker makes is serialised, waits until the training process asks for it, and is taken apart again:
one to two milliseconds, whatever is in it. And torch trains on the CPU with a thread for each core, which wait for each
other after each operator. A worker that has one of these cores holds all of them up: with two threads on two cores,
and samples that take 8 ms a batch, steps took 22 to 25 ms beside one, two or four workers, and 13 to 15 without any.

## What to do
Use the number of workers that the advice names; with 0 the training process makes its batches itself, and prefetching,
persistent workers and a timeout have to go. Where training takes the cores, the other way is to leave the workers
some: fewer threads for training. Which is better depends on how much loading there is, and is tried in a minute.

## How the gain is predicted
The loader is simulated from the recorded batches with each smaller number of workers, on the cores that the job may
use. The range has the known errors of the simulation; that operators on the samples may use the threads of training
where no worker makes the batch; and, from 0 on, that a run on full cores does not tell how fast training is without
the others. A trial does: `stepscope predict loader RUN --calibrate`.

## When it is wrong
With a device, threads on the CPU are not what trains, and only what handing over takes is counted. Where the first
batch of an epoch takes long, workers hide it behind the end of the epoch before, which is not simulated.
"""

from collections.abc import Iterator
from math import ceil

import polars as pl

from stepscope.analyses._settled import settled_steps
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.predict.loader_model import Change, LoaderModel, Prediction, fit, predict
from stepscope.predict.pipeline import Pipeline, pipeline
from stepscope.predict.waiting_input import NEARLY, TRIED

__all__ = ["RULE"]

LEAST = 0.1  # of the step: of what is predicted from one run, half of all pairs of scripts were off by less
FULL = 0.85  # of the cores in use: with less, threads of training have the cores they want


def check(run: Run) -> Iterator[Finding]:
    ranks = _with_workers(run)
    if not ranks:
        return
    model = fit(pipeline(run, ranks[0]))
    if model.pipeline.unseen:
        raise MissingData("what the device did while training waited", how="record a trace, with --trace auto")
    now, best = _compared(model)
    saved = now - best.step_ns
    if saved < LEAST * now:
        return
    yield Finding(
        title="The loader has more workers than it gains from",
        cause="configuration",
        evidence=tuple(_evidence(model.pipeline, now)),
        gain=Gain(
            low_ns=max(0, now - best.high_ns),
            high_ns=max(0, now - best.low_ns),
            basis=f"{best.workers or 'no'} workers instead of {model.pipeline.workers}, simulated ({best.basis})",
            confidence="structural",
        ),
        advice=tuple(_advice(model.pipeline, best.workers)),
        ranks=tuple(sorted(ranks)),
    )


def _with_workers(run: Run) -> tuple[int, ...]:
    """Ranks whose batches workers make, that with the longest steps first: the others wait for it."""
    loaders = run.optional("loaders").filter(pl.col("train").fill_null(False) & (pl.col("num_workers") > 0))
    if loaders.is_empty():
        return ()
    steps = settled_steps(run).filter(pl.col("rank").is_in(loaders["rank"].unique().to_list()))
    means = steps.group_by("rank").agg(pl.col("duration").mean()).sort("duration", "rank", descending=[True, False])
    return tuple(means["rank"])


def _compared(model: LoaderModel) -> tuple[int, Prediction]:
    """The mean step (ns) as it is, and with the fewest workers that are nearly as good as any smaller number; the start
    of workers, which is another rule's, apart."""
    fewer = (0, *(workers for workers in TRIED if workers < model.pipeline.workers))
    changes = [Change(persistent=True), *(Change(workers=workers, persistent=True) for workers in fewer)]
    now, *rows = predict(model, changes)
    least = min(row.step_ns for row in rows)
    return now.step_ns, next(row for row in rows if row.step_ns <= (1 + NEARLY) * least)


def _evidence(measured: Pipeline, now: int) -> Iterator[Evidence]:
    made, taken = (float(mean) for mean in measured.fetch.mean(axis=0))
    yield Evidence(label="num_workers", value=measured.workers, unit="count", source="loaders")
    yield Evidence(label="mean time to make a batch", value=taken, unit="ns", source="loader_stages")
    yield Evidence(label="mean part of it on a core", value=made / taken, unit="ratio", source="loader_stages")
    handing = measured.handing + measured.held
    yield Evidence(label="mean time to take a batch from a worker", value=handing, unit="ns", source="loader_stages")
    yield Evidence(label="threads of training", value=measured.threads, unit="count", source="processes")
    yield Evidence(label="cores for this rank", value=measured.cores, unit="count", source="core_waits")
    if measured.job is not None:
        yield Evidence(label="cores that the job used", value=measured.job, unit="count", source="core_waits")


def _advice(measured: Pipeline, workers: int) -> Iterator[Advice]:
    if workers:
        yield Advice(text="Make batches in fewer worker processes", code=f"DataLoader(..., num_workers={workers})")
    else:
        yield Advice(
            text="Make batches in the training process: without prefetch_factor, persistent_workers and timeout",
            code="DataLoader(..., num_workers=0)",
        )
    busy = (measured.job or 0.0) + (measured.foreign or 0.0)
    if measured.threads > 1 and not measured.device and busy >= FULL * measured.cores:
        left = max(1, int(measured.cores) - ceil(_loading(measured)))
        yield Advice(
            text="Or keep the workers and leave them cores: fewer threads for training",
            code=f"torch.set_num_threads({left})  # before the first step",
        )
    yield Advice(text="Have numbers of workers tried and measured", code="stepscope tune loader -- COMMAND")


def _loading(measured: Pipeline) -> float:
    """Cores that making batches takes at the recorded pace."""
    making = float(measured.fetch[:, 0].mean()) + (measured.feed or 0.0)
    return making * measured.batches / measured.step


def example(synth: Synth, fixed: bool) -> None:
    """A batch of many small tensors is made in 0.4 ms and taken from a worker in 6; training needs 10 ms."""
    length = 10.4 if fixed else 16.0
    synth.add("meta", source="run.json", key="cores", value='{"effective": 32}')
    synth.add("processes", threads=1)
    synth.add(
        "loaders", loader=0, train=True, dataset="Pictures", num_workers=0 if fixed else 4, prefetch_factor=2,
        batch_size=32, persistent_workers=not fixed, pin_memory=False,
    )  # fmt: skip
    for step in range(40):
        start, worker = step * length, None if fixed else step % 4
        synth.step(step, start, start + length, data_wait=length - 10, forward=5, backward=5)
        synth.span("fetch", step, worker, start, start + 0.4, cpu=round(0.4 * MS))
        if not fixed:
            synth.span("serialize", step, worker, start + 0.4, start + 0.9, cpu=round(0.5 * MS))
            synth.span("receive", step, None, start, start + 6, cpu=4 * MS)
        synth.add("system", time=round((start + length / 2) * MS), rank=None, what="job CPU", value=1.0, unit="cores")
        synth.add("system", time=round((start + length / 2) * MS), rank=None, what="other CPU", value=0.0, unit="cores")


RULE = Rule(check=check, example=example, explains="input-bound", replaces=("slow-transform", "slow-collate"))
