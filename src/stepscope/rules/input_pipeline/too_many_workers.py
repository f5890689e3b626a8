"""The loader has more workers than it benefits from: fewer, or none, are faster.

## What it finds
A simulation of the loader with fewer workers, or with none, makes the step shorter by a tenth or more. Either a batch
is cheaper to load than to transfer, or the workers use cores that multithreaded training needs. If the workers are idle
more than half of the time, this finding stands for a slow transform or collate function that saves little more. Busy
workers are a symptom: there the line that keeps them busy is named first.

## Why it costs time
Each batch of a worker is serialized, waits in a queue, and is deserialized: one to two milliseconds, however small it
is. On the CPU, torch trains with one thread per core, which wait for each other after each operator. A worker on one of
these cores delays all of them. With two threads on two cores, and samples that take 8 ms a batch, steps took 22 to 25
ms beside one, two or four workers. Without workers they took 13 to 15 ms.

## What to do
Use the number of workers in the advice. With 0 the training process loads its own batches, and prefetch_factor,
persistent_workers and timeout must go. Fewer training threads are no sure alternative. On two cores, one thread instead
of two made steps a tenth to a third shorter in two scripts. In three others they became a fifth to a half longer.

## How the gain is predicted
The loader is simulated from the recorded batches with each smaller number of workers, on the job's cores. The range
includes the known errors of the simulation. Without workers, operators on samples may use the training threads. And a
run on full cores does not tell how fast training is without workers: `stepscope predict loader RUN --calibrate`
measures it. Some workers are outside the simulation, such as those whose batches take longer to transfer than to load.
Then a step without workers is the sum of the measured times.

## When it is wrong
With a GPU, CPU threads do not train, and only the transfer time is counted. If the first batch of an epoch takes long,
workers hide it behind the end of the epoch before. That is not simulated.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.input_pipeline.lib.loader_facts import loader_facts
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.models.input_stall import NEARLY, TRIED, busy_share, cores
from stepscope.models.loader_model import LoaderChange, Prediction, check_undisturbed, fit, predict, without_workers
from stepscope.models.pipeline import Pipeline, pipeline

__all__ = ["RULE"]

IDLE = 0.5  # of the workers' time: busier ones are kept busy by something, which then is the reason, not their number
LEAST = 0.1  # of the step: of what is predicted from one run, half of all pairs of scripts were off by less
OTHERS = 0.1  # of the cores: with other programs at work, nobody knows whom training had to wait for


def check(run: Run) -> Iterator[Finding]:
    ranks = _with_workers(run)
    if not ranks:
        return
    measured = pipeline(run, ranks[0])
    if measured.unseen:
        raise MissingData("what the device did while training waited", how="record a trace, with --trace auto")
    check_undisturbed(measured, OTHERS)
    now, best = _compared(measured)
    if now - best.step_ns < LEAST * now:
        return
    yield Finding(
        title=Title(
            "num_workers={} costs time: {} is faster", (Value(measured.workers, "count"), Value(best.workers, "count"))
        ),
        cause="configuration",
        evidence=tuple(_evidence(measured)),
        gain=Gain(
            low_ns=max(0, now - best.high_ns),
            high_ns=max(0, now - best.low_ns),
            step_ns=now,
            basis=f"simulated: num_workers={best.workers} instead of {measured.workers} ({best.basis})",
            confidence="structural",
            pool="data-wait",
        ),
        advice=tuple(_advice(best.workers, loader_facts(run, ranks[0]).at)),
        ranks=tuple(sorted(ranks)),
        where=loader_facts(run, ranks[0]).where,
        replaces=("slow-transform", "slow-collate") if busy_share(run, ranks[0]) < IDLE else (),
    )


def _with_workers(run: Run) -> tuple[int, ...]:
    """Ranks whose batches workers make, that with the longest steps first: the others wait for it."""
    training = run.optional("loaders").filter(pl.col("train").fill_null(False))
    if training.is_empty():
        raise MissingData("description of the training loader", how="run it with `stepscope run -- COMMAND`")
    loaders = training.filter(pl.col("num_workers") > 0)
    if loaders.is_empty():
        return ()
    steps = enough_steps(run).filter(pl.col("rank").is_in(loaders["rank"].unique().to_list()))
    means = steps.group_by("rank").agg(pl.col("duration").mean()).sort("duration", "rank", descending=[True, False])
    return tuple(means["rank"])


def _compared(measured: Pipeline) -> tuple[int, Prediction]:
    """The mean step (ns) as it is, and with the fewest workers that are nearly as good as any smaller number; the start
    of workers, which is another rule's, apart."""
    try:
        model = fit(measured)
    except MissingData:
        handed = measured.transfer_cost + measured.held + (measured.feed or 0.0)
        if float(measured.fetch[:, 1].mean()) > handed:
            raise  # there may be batches that took long, and were not recorded
        return round(measured.step), without_workers(measured)
    fewer = (0, *(workers for workers in TRIED if workers < measured.workers))
    changes = [LoaderChange(persistent=True), *(LoaderChange(workers=workers, persistent=True) for workers in fewer)]
    now, *rows = predict(model, changes)
    least = min(row.step_ns for row in rows)
    return now.step_ns, next(row for row in rows if row.step_ns <= (1 + NEARLY) * least)


def _evidence(measured: Pipeline) -> Iterator[Evidence]:
    computing, making = (float(mean) for mean in measured.fetch.mean(axis=0))
    transfer = measured.transfer_cost + measured.held
    yield Evidence(label="batch transfer time", value=transfer, unit="ns", source="loader_stages")
    yield Evidence(label="batch load time", value=making, unit="ns", source="loader_stages")
    if measured.threads > 1:
        yield Evidence(label="training threads", value=measured.threads, unit="count", source="processes")
    yield cores(measured)
    yield Evidence(label="CPU-bound share", value=computing / making, unit="ratio", source="loader_stages")
    yield Evidence(label="num_workers", value=measured.workers, unit="count", source="loaders")


def _advice(workers: int, site: str) -> Iterator[Advice]:
    if workers:
        yield Advice(text=f"Set num_workers={workers}{site}", code=f"DataLoader(..., num_workers={workers})")
    else:
        yield Advice(
            text=f"Set num_workers=0{site} and remove prefetch_factor, persistent_workers and timeout",
            code="DataLoader(..., num_workers=0)",
        )
    yield Advice(
        text="Measure other worker counts on this machine", code="stepscope tune loader -- COMMAND", language="shell"
    )


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


RULE = Rule(check=check, example=example, explains="input-bound")
