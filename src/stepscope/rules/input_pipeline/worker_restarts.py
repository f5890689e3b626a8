"""The workers of the loader restart in each epoch.

## What it finds
Loaders with workers and without `persistent_workers`. The first step of an epoch waits longer for its batch than other
steps. Averaged over all steps, the difference exceeds 5 % of the step.

## Why it costs time
At the end of an epoch the workers exit. Each start creates a process with empty caches. With `spawn` and `forkserver`
it also imports all modules and receives the data set. Training waits meanwhile.

## What to do
Set `persistent_workers=True`. The workers then keep their memory between epochs. Changes that the training process
makes to the data set after the first epoch no longer reach them. Longer epochs also help, such as several passes over a
small data set in one.

## How the gain is predicted
From the extra wait in first steps of epochs, plus the wait for the workers of the last epoch to exit, averaged over all
steps. If the exit was not recorded, the extra time of those steps outside the data wait counts instead. Steps with a
validation or another long line are left out. High end: 1.3 times of it, as steps after a start are slower, too
(measured: 1.1 to 1.27). Low end: without the time to load and transfer one batch, because nothing is prefetched across
epochs, and at most 0.7 times of it (measured: 0.75). Without a record of the input pipeline, half of the high end.

## When it is wrong
A sampler that works long before its first index also makes the first wait of an epoch long. So does an evaluation with
its own loader. A run of less than one epoch shows no restart.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound.lib.input_waits import MIN_SHARE
from stepscope.analyses.input_pipeline.lib.loader_facts import loader_facts
from stepscope.analyses.input_pipeline.lib.worker_calls import of_training
from stepscope.analyses.input_pipeline.loader_stages import loader_stages
from stepscope.analyses.input_pipeline.loader_starts import loader_starts
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.analyses.steps.lib.stall_groups import stall_groups
from stepscope.analyses.steps.steps import weight_of
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MORE = 1.3  # of the lost time, at most: steps after a start are slower, too; measured 1.1 to 1.27
KEPT = 0.7  # of the lost time, at least: workers that last begin each epoch anew, too; measured 0.75
MIN_STARTS = 2  # one may be the start of the job


@dataclass(frozen=True, slots=True, kw_only=True)
class _Starts:
    """Starts of epochs on a rank; times in ns. `first` and `other` are mean waits, `lost` per step; `batch` the time
    to make and hand over one, None if it was not recorded."""

    rank: int
    starts: int
    steps: int
    step: float
    first: float
    other: float
    lost: float
    batch: float | None

    @property
    def low(self) -> float:
        """The least that lasting workers save per step."""
        if self.batch is None:
            return MORE * self.lost / 2
        return max(0.0, self.lost - max(0.0, self.batch - self.other) * self.starts / self.steps)


def check(run: Run) -> Iterator[Finding]:
    table = enough_steps(run).filter(pl.col("data_wait").is_not_null())
    if table.is_empty():
        raise MissingData("data wait of a torch DataLoader", how="run it with `stepscope run -- COMMAND`")
    found = [row for row in _starts(run, table) if row.low > MIN_SHARE * row.step]
    if not found:
        return
    worst = max(found, key=lambda row: row.low / row.step)
    facts = loader_facts(run, worst.rank)
    yield Finding(
        title=Title("Workers restart every epoch: {} each", (Value(_each(worst), "ns"),)),
        cause="data-reading",
        evidence=_evidence(worst),
        gain=Gain(
            low_ns=int(min(worst.low, KEPT * worst.lost)),
            high_ns=int(min(MORE * worst.lost, worst.step)),
            step_ns=int(worst.step),
            basis="extra time of first steps, with and without loading their batch",
            confidence="structural",
        ),
        advice=(
            Advice(
                text=f"Set persistent_workers=True{facts.at}: workers then stay alive between epochs",
                code=f"DataLoader(..., num_workers={facts.workers}, persistent_workers=True)",
            ),
        ),
        ranks=tuple(sorted(row.rank for row in found)),
        where=facts.where,
    )


def _each(worst: _Starts) -> float:
    return worst.lost * worst.steps / worst.starts


def _starts(run: Run, table: pl.DataFrame) -> Iterator[_Starts]:
    """Of the ranks whose workers are known to end with each epoch."""
    for (rank,), rows in table.sort("rank").group_by("rank", maintain_order=True):
        begins = rows["tags"].list.contains("epoch-start").fill_null(False)
        first, other = rows.filter(begins)["data_wait"].to_numpy(), rows.filter(~begins)["data_wait"].to_numpy()
        if len(first) < MIN_STARTS or not len(other):
            continue
        facts = loader_facts(run, int(rank))
        if not facts.workers or facts.persistent is not False:
            continue
        weight = weight_of(rows)
        yield _Starts(
            rank=int(rank),
            starts=len(first) * weight,
            steps=rows.height * weight,
            step=float(rows["duration"].to_numpy().mean()),
            first=float(first.mean()),
            other=float(other.mean()),
            lost=(max(0.0, float(first.mean() - other.mean())) + _ending(run, rows, begins)) * len(first) / rows.height,
            batch=_batch(run, int(rank)),
        )


def _ending(run: Run, rows: pl.DataFrame, begins: pl.Series) -> float:
    """What the end of the last epoch's workers takes; else what a step that begins an epoch does besides."""
    rank = int(rows["rank"][0])
    measured = _ended(run, rank)
    if measured is not None:
        return measured
    stalled = [step for group in stall_groups(run) if group.rank == rank and group.places for step in group.steps]
    told = rows["tags"].list.contains("evaluation").fill_null(False) | rows["step"].is_in(stalled)
    first, other = rows.filter(begins & ~told)["other"].to_numpy(), rows.filter(~begins)["other"].to_numpy()
    return max(0.0, float(first.mean() - other.mean())) if len(first) else 0.0


def _ended(run: Run, rank: int) -> float | None:
    """Mean wait until all workers of an iterator had ended; None if none was recorded."""
    try:
        starts = loader_starts(run).filter(of_training(run, rank) & pl.col("ended").is_not_null())
    except MissingData:
        return None
    waits = starts.group_by("loader", "iterator").agg(pl.col("ended").max())["ended"].to_numpy()
    return float(waits.mean()) if len(waits) else None


def _batch(run: Run, rank: int) -> float | None:
    """Mean time to make a batch and to serialize it."""
    try:
        stages = loader_stages(run)
    except MissingData:
        return None
    known = stages.filter(of_training(run, rank) & pl.col("stage").is_in(["fetch", "serialize"]))
    return float(known["mean"].sum()) if "fetch" in known["stage"] else None


def _evidence(row: _Starts) -> tuple[Evidence, ...]:
    rows = (
        Evidence(label="first-step data wait", value=row.first, unit="ns", source="steady_steps"),
        Evidence(label="data wait otherwise", value=row.other, unit="ns", source="steady_steps"),
        Evidence(label="epoch starts", value=row.starts, unit="count", source="steady_steps"),
        Evidence(label="steps", value=row.steps, unit="count", source="steady_steps"),
    )
    if row.batch is None:
        return rows
    return (*rows, Evidence(label="batch load time", value=row.batch, unit="ns", source="loader_stages"))


def example(synth: Synth, fixed: bool) -> None:
    """Epochs of 10 steps; starting the workers takes 200 ms."""
    synth.add(
        "loaders", loader=0, train=True, dataset="Pictures", num_workers=4, batch_size=32, pin_memory=False,
        persistent_workers=fixed,
    )  # fmt: skip
    at = 0.0
    for step in range(60):
        first = step % 10 == 0
        wait = 205 if first and not fixed else 5 if first else 1
        tags = ("epoch-start",) if first else ()
        synth.step(step, at, at + 50 + wait, data_wait=wait, forward=20, backward=25, optimizer=5, tags=tags)
        synth.span("fetch", step, step % 4, at, at + 20)
        synth.span("serialize", step, step % 4, at + 20, at + 21)
        at += 50 + wait


RULE = Rule(check=check, example=example, explains="input-bound")
