"""One worker of the loader is far slower than the others, and training waits for it.

## What it finds
Training waits for data for more than 5 % of its steps. One worker takes at least 1.5 times as long per batch as the
others. Its quicker batches take longer than the slower ones of the others. And the steps follow its pace: the time of
its batches divided by the number of workers.

## Why it costs time
Batches are delivered in order and each worker loads every n-th of them, so all follow the slowest. The others may
prefetch only `prefetch_factor` batches.

## What to do
The evidence says how the slow worker spends its time. If it computes longer, its share of the samples is more work:
split the data into smaller pieces. If it waits for files, its share is on a slower disk or server. If it waits for a
core, it is pinned to a busy one (`taskset`, `psutil.cpu_affinity`, a NUMA binding). If the order of batches does not
matter, `in_order=False` (torch 2.6 and later) delivers what is ready.

## How the gain is predicted
The loader is simulated with each worker at its own recorded pace. Then the slow worker's batches are replaced by ones
like those of the others. Steps after a wait are slower than others, so training gets faster, too. The range includes
the known errors of the simulation and the cores that other processes used. With `in_order=False` the slow worker loads
fewer of the batches, which never saves more. The low end is at most what that saves.

## When it is wrong
A data set that gives each worker different samples may be uneven for one epoch only. With few recorded batches per
worker, one can look slow by chance.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.bound.lib.input_waits import MIN_SHARE
from stepscope.analyses.input_pipeline.lib.hot_lines import hot_lines
from stepscope.analyses.input_pipeline.lib.loader_facts import loader_facts
from stepscope.analyses.input_pipeline.lib.worker_calls import of_training
from stepscope.analyses.input_pipeline.loader_stages import RECORD_LOADING
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.models.loader_advice import UNORDERED
from stepscope.models.longest_waits import longest_waits
from stepscope.models.pipeline import Pipeline, pipeline
from stepscope.models.worker_pace import without_slow_worker

__all__ = ["RULE"]

MIN_FACTOR = 1.5  # of the others' mean: contention alone makes workers differ by less
MIN_BATCHES = 2  # of each worker: of batches that take little CPU time few are recorded
PACE = 0.75  # of the step: a worker whose batches, divided by the workers, take less does not set the pace
ERROR = 0.12  # of a step: the most that this formula was wrong by for loaders on emulated cores
MIN_WORKERS = 3  # of two, neither is the exception
QUICKER, SLOWER = 0.25, 0.75  # quantiles that may not overlap: of the slow worker, and of the others
_HOW = "train for more steps, or record it with --loader all"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slow:
    """The slowest worker: mean wall and CPU time of its batches, ns, and those of the others'."""

    worker: int
    wall: float
    cpu: float
    others_wall: float
    others_cpu: float


def check(run: Run) -> Iterator[Finding]:
    culprits = longest_waits(run)
    if not culprits:
        return
    rank = culprits[0].rank
    measured = pipeline(run, rank)
    if measured.workers < MIN_WORKERS:
        return
    fetches = _fetches(run, rank)
    slow = _slowest(fetches, measured.workers)
    if slow is None or measured.batches * slow.wall / measured.workers < PACE * measured.step:
        return
    even = without_slow_worker(measured, _paces(fetches), slow.worker)
    least, low, high = (
        max(0.0, measured.step + measured.restart - step) for step in (even.step_ns, even.high_ns, even.low_ns)
    )
    if least <= MIN_SHARE * measured.step or low <= 0:
        return
    yield Finding(
        title=_title(fetches, slow),
        cause="data-reading",
        evidence=_evidence(measured, slow),
        gain=Gain(
            low_ns=int(min(low, _unordered(measured, slow))),
            high_ns=int(high),
            step_ns=int(measured.step + measured.restart),
            basis=f"simulated: this worker as fast as the others, or in_order=False ({even.basis})",
            confidence="structural",
        ),
        advice=_advice(slow),
        ranks=tuple(sorted(row.rank for row in culprits)),
        where=hot_lines(run, rank, next(iter(loader_facts(run, rank).places), None), worker=slow.worker),
    )


def _title(fetches: pl.DataFrame, slow: _Slow) -> Title:
    others = fetches.filter(pl.col("worker") != slow.worker)["wall"].median()
    times = slow.wall / others if isinstance(others, int | float) and others else 1.0
    return Title("Worker {} is {}× slower than the others", (str(slow.worker), Value(round(times, 1), None)))


def _fetches(run: Run, rank: int) -> pl.DataFrame:
    """Wall and CPU time of each recorded batch, by worker; without the first of each process where enough remain."""
    spans = run.table("loader_spans", how=RECORD_LOADING).filter(
        of_training(run, rank) & (pl.col("stage") == "fetch") & ~pl.col("failed").fill_null(False)
        & pl.col("worker").is_not_null()
    )  # fmt: skip
    later = spans.filter(pl.col("start") > pl.col("start").min().over("pid"))
    kept = later if _fewest(later) >= MIN_BATCHES and _workers(later) == _workers(spans) else spans
    wall = pl.col("end") - pl.col("start")
    rows = kept.sort("worker", "start")
    return rows.select("worker", wall=wall, cpu=pl.min_horizontal(pl.col("cpu").fill_null(wall), wall))


def _fewest(fetches: pl.DataFrame) -> int:
    """The least number of batches of a worker."""
    return min(fetches.group_by("worker").len()["len"].to_list(), default=0)


def _workers(fetches: pl.DataFrame) -> int:
    return fetches["worker"].n_unique()


def _slowest(fetches: pl.DataFrame, workers: int) -> _Slow | None:
    """The worker whose quicker batches take longer than the slower ones of all others. Raises MissingData."""
    if _workers(fetches) < workers or _fewest(fetches) < MIN_BATCHES:
        raise MissingData(f"{MIN_BATCHES} batches of each worker with spans", how=_HOW)
    means = fetches.group_by("worker").agg(pl.col("wall", "cpu").mean()).sort("wall", "worker", descending=True)
    worker, wall, cpu = means.row(0)
    others = fetches.filter(pl.col("worker") != worker)
    usual = means.filter(pl.col("worker") != worker).select(pl.col("wall", "cpu").mean()).row(0)
    own = fetches.filter(pl.col("worker") == worker)["wall"]
    apart = (own.quantile(QUICKER) or 0.0) > (others["wall"].quantile(SLOWER) or 0.0)
    if not apart or wall < MIN_FACTOR * usual[0]:
        return None
    return _Slow(worker=worker, wall=wall, cpu=cpu, others_wall=usual[0], others_cpu=usual[1])


def _paces(fetches: pl.DataFrame) -> dict[int, npt.NDArray[np.float64]]:
    """CPU and wall time of the batches of each worker."""
    return {
        int(worker): rows.select("cpu", "wall").to_numpy().astype(np.float64)
        for (worker,), rows in fetches.group_by("worker", maintain_order=True)
    }


def _unordered(measured: Pipeline, slow: _Slow) -> float:
    """What batches that are taken when they are ready save of a step, at least."""
    computing = slow.others_cpu + (measured.feed or 0.0) + (measured.own_cpu or 0.0)
    least = max(measured.own + measured.transfer_cost, computing / measured.cores)
    rate = (measured.workers - 1) / slow.others_wall + 1 / slow.wall
    return max(0.0, measured.step - (1 + ERROR) * max(least, 1 / rate) * measured.batches)


def _evidence(measured: Pipeline, slow: _Slow) -> tuple[Evidence, ...]:
    source = "loader_workers"
    idle, usual = slow.wall - slow.cpu, slow.others_wall - slow.others_cpu
    return (
        Evidence(label="its batch load time", value=slow.wall, unit="ns", source=source),
        Evidence(label="others' batch load time", value=slow.others_wall, unit="ns", source=source),
        Evidence(label="extra time spent waiting",
                 value=max(0.0, min(1.0, (idle - usual) / (slow.wall - slow.others_wall))), unit="ratio",
                 source=source),
        Evidence(label="its CPU per batch", value=slow.cpu, unit="ns", source=source),
        Evidence(label="others' CPU per batch", value=slow.others_cpu, unit="ns", source=source),
        Evidence(label="num_workers", value=measured.workers, unit="count", source="loaders"),
        Evidence(label="step time", value=measured.step, unit="ns", source="steady_steps"),
    )  # fmt: skip


def _advice(slow: _Slow) -> tuple[Advice, ...]:
    more_computing = slow.cpu - slow.others_cpu >= (slow.wall - slow.others_wall) / 2
    first = (
        Advice(text="Split the data into smaller pieces, so that each worker gets an even share")
        if more_computing
        else Advice(
            text="Check where its part of the data is stored, and whether it is pinned to a busy core",
            code="os.sched_getaffinity(0)  # in a worker_init_fn; its parts of the data beside it",
        )
    )
    return (
        first,
        UNORDERED,
    )


def example(synth: Synth, fixed: bool) -> None:
    """4 workers of 20 ms a batch, one of which takes 60; training needs 5."""
    workers, own, usual = 4, 5.0, 20.0
    slow = usual if fixed else 60.0
    length = max(own, slow / workers)
    synth.add("meta", source="run.json", key="cores", value='{"effective": 32}')
    synth.add("loaders", loader=0, train=True, dataset="Parts", num_workers=workers, prefetch_factor=2)
    for step in range(48):
        at, worker = step * length, step % workers
        synth.step(step, at, at + length, data_wait=length - own, forward=own / 2, backward=own / 2)
        lasts = slow if worker == 1 else usual
        ends = synth.fetch(step, worker, at, (("sample", "data.Parts", lasts, lasts),))
        synth.span("serialize", step, worker, ends, ends + 0.1, cpu=100_000)
        synth.span("index wait", step, worker, ends, at + max(slow, usual))
        used = ((slow + 3 * usual) / 4 + own) / length
        synth.add("system", time=round((at + length / 2) * MS), rank=None, what="job CPU", value=used, unit="cores")
        synth.add("system", time=round((at + length / 2) * MS), rank=None, what="other CPU", value=0.0, unit="cores")


RULE = Rule(check=check, example=example, explains="input-bound")
