"""The workers of the loader are started anew in each epoch.

## What it finds
Loaders with workers and without `persistent_workers`, where the first step of an epoch waits so much longer for its
batch than other steps that all steps together lose more than 5 % to it.

## Why it costs time
At the end of an epoch the workers end. Starting one takes a process, with `spawn` and `forkserver` also importing all
modules and sending the data set to it, and it begins with empty caches; training waits meanwhile.

## What to do
`persistent_workers=True` keeps them. It takes the memory of the workers between epochs as well, and changes that the
training process makes to the data set after the first epoch no longer reach them. Longer epochs, such as several passes
over a small data set in one, help too.

## How the gain is predicted
High end: what the first steps of epochs wait beyond the others, and what training waits until the workers of the last
epoch have ended, shared among all steps. Where that wait was not recorded, it is what these steps take besides, but not
of steps that hold a validation or another long line: that time is theirs. Low end: less the time to make and hand over
one batch, which lasting workers need as well, as nothing is made ahead across epochs; where the input pipeline was not
recorded, half of the high end.

## When it is wrong
A sampler that works long before it gives its first index, or an evaluation with a loader of its own, also makes the
first wait of an epoch long. A run of less than one epoch shows no start.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from stepscope.analyses._input_waits import MIN_SHARE
from stepscope.analyses._loader_facts import loader_facts
from stepscope.analyses._settled import settled_steps
from stepscope.analyses._stall_groups import stall_groups
from stepscope.analyses._worker_calls import of_training
from stepscope.analyses.loader_stages import loader_stages
from stepscope.analyses.loader_starts import loader_starts
from stepscope.analyses.steps import weight_of
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]

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
            return self.lost / 2
        return max(0.0, self.lost - max(0.0, self.batch - self.other) * self.starts / self.steps)


def check(run: Run) -> Iterator[Finding]:
    table = settled_steps(run).filter(pl.col("data_wait").is_not_null())
    if table.is_empty():
        raise MissingData("wait for a DataLoader of torch", how="run it with `stepscope run -- COMMAND`")
    found = [row for row in _starts(run, table) if row.low > MIN_SHARE * row.step]
    if not found:
        return
    worst = max(found, key=lambda row: row.low / row.step)
    workers = loader_facts(run, worst.rank).workers
    yield Finding(
        title="Workers are started anew in each epoch",
        cause="data-reading",
        evidence=_evidence(worst),
        gain=Gain(
            low_ns=int(worst.low),
            high_ns=int(worst.lost),
            step_ns=int(worst.step),
            basis="what first steps of epochs take beyond the others, with and without making their batch",
            confidence="structural",
        ),
        advice=(
            Advice(
                text="Keep the workers between epochs",
                code=f"DataLoader(..., num_workers={workers}, persistent_workers=True)",
            ),
        ),
        ranks=tuple(sorted(row.rank for row in found)),
    )


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
    """Mean time to make a batch and to serialise it."""
    try:
        stages = loader_stages(run)
    except MissingData:
        return None
    known = stages.filter(of_training(run, rank) & pl.col("stage").is_in(["fetch", "serialize"]))
    return float(known["mean"].sum()) if "fetch" in known["stage"] else None


def _evidence(row: _Starts) -> tuple[Evidence, ...]:
    rows = (
        Evidence(label="mean wait in the first step of an epoch", value=row.first, unit="ns", source="steady_steps"),
        Evidence(label="mean wait in other steps", value=row.other, unit="ns", source="steady_steps"),
        Evidence(label="starts of epochs", value=row.starts, unit="count", source="steady_steps"),
        Evidence(label="steps", value=row.steps, unit="count", source="steady_steps"),
    )
    if row.batch is None:
        return rows
    return (*rows, Evidence(label="mean time to make a batch", value=row.batch, unit="ns", source="loader_stages"))


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
