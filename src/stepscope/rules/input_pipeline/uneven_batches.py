"""A few batches take far longer than the others, and training waits for them.

## What it finds
Training waits for data for more than 5 % of its steps although the workers are idle for a fifth of their time or more.
A simulation of the loader with the same workers and more prefetched batches makes the step shorter.

## Why it costs time
Batches are delivered in order, and each worker may prefetch only `prefetch_factor` batches. While one worker loads a
long batch, training uses up the batches of the others, then waits. The other workers' queues are full, so they are
idle.

## What to do
Prefetch more: `prefetch_factor=8`. If the order of batches does not matter, `in_order=False` (torch 2.6 and later)
delivers what is ready. Or shrink the large samples once, before training. Prefetching takes memory: number of workers ×
`prefetch_factor` × size of a batch.

## How the gain is predicted
The loader is simulated from the recorded batches, resampled several times, with the larger `prefetch_factor`. The range
covers where the large batches may fall, and the known errors of the simulation. If long batches are so rare that a
hundred batches give no stable mean, the simulation does not fit. The rule is then listed as not checked.

## When it is wrong
If all workers read from one busy disk, slow batches come together, and prefetching helps only briefly. If large samples
are frequent, the workers are busy all the time: that is another problem.
"""

from collections.abc import Iterator

import numpy as np

from stepscope.analyses.input_pipeline.lib.hot_lines import hot_lines
from stepscope.core.finding import Advice, Evidence, Finding, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.input_stall import (
    MIN_BUSY,
    NEARLY,
    InputStall,
    gain,
    input_stall,
    making,
    pays,
    waiting_evidence,
)
from stepscope.models.loader_advice import UNORDERED
from stepscope.models.loader_model import LoaderChange, predict

__all__ = ["RULE"]

TRIED = (4, 8, 16)  # batches ahead of each worker; torch makes 2 ahead, more than 16 take too much memory


def check(run: Run) -> Iterator[Finding]:
    found = input_stall(run)
    if found is None or not found.model.pipeline.workers or found.busy >= MIN_BUSY:
        return
    ahead = _ahead(found)
    if ahead is None:
        return
    yield Finding(
        title=_title(found),
        cause="data-reading",
        evidence=_evidence(found),
        gain=gain(found, (LoaderChange(prefetch=ahead, persistent=True),), f"prefetch_factor={ahead}"),
        advice=(
            Advice(
                text=f"Set prefetch_factor={ahead}: each worker loads more batches ahead",
                code=f"DataLoader(..., num_workers={found.model.pipeline.workers}, prefetch_factor={ahead})",
            ),
            UNORDERED,
            Advice(text="Shrink the largest samples once, before training"),
        ),
        ranks=found.ranks,
        where=hot_lines(run, found.ranks[0], found.data_set),
    )


def _title(found: InputStall) -> Title:
    wall = found.model.pipeline.fetch[:, 1]
    median = float(np.median(wall))
    slow = wall[wall > (median + float(wall.max())) / 2]  # nearer to the longest than to the median
    times = float(slow.mean()) / max(median, 1.0) if len(slow) else 1.0
    rarity = Value(round(len(wall) / max(len(slow), 1)), "count")
    return Title("One batch in {} takes {}× the median to load", (rarity, Value(round(times, 1), None)))


def _ahead(found: InputStall) -> int | None:
    """The fewest batches ahead that are nearly as good as any, None where more of them do not pay."""
    tried = [ahead for ahead in TRIED if ahead > found.model.pipeline.prefetch]
    rows = predict(found.model, [LoaderChange(prefetch=ahead, persistent=True) for ahead in tried])
    least = min((row.step_ns for row in rows), default=0)
    enough = zip(tried, rows, strict=True)
    return next((n for n, row in enough if row.step_ns <= (1 + NEARLY) * least and pays(found, row)), None)


def _evidence(found: InputStall) -> tuple[Evidence, ...]:
    measured, source = found.model.pipeline, "loader_stages"
    walls = measured.fetch[:, 1]
    return (
        Evidence(label="maximum batch load time", value=float(walls.max()), unit="ns", source=source),
        Evidence(label="median batch load time", value=float(np.median(walls)), unit="ns", source=source),
        Evidence(label="prefetch_factor", value=measured.prefetch, unit="count", source="loaders"),
        Evidence(label="worker busy share", value=found.busy, unit="ratio", source="loader_workers"),
        making(found),
        *waiting_evidence(found),
    )


def example(synth: Synth, fixed: bool) -> None:
    """4 workers; training takes 10 ms, a batch 10 ms, but each 7th takes 120 ms."""
    workers, ahead, own, steps = 4, 16 if fixed else 1, 10.0, 240
    synth.add("meta", source="run.json", key="cores", value='{"effective": 32}')
    synth.add("loaders", loader=0, train=True, dataset="Pictures", num_workers=workers, prefetch_factor=ahead)
    free, at = [0.0] * workers, 0.0
    taken: list[float] = []
    for batch in range(steps):
        worker, lasts = batch % workers, 120.0 if batch % 7 == 6 else 10.0
        ordered = taken[batch - workers * ahead] if batch >= workers * ahead else 0.0
        begins = max(free[worker], ordered)
        synth.span("index wait", batch, worker, free[worker], begins)
        free[worker] = synth.fetch(batch, worker, begins, (("sample", "data.Pictures", lasts, lasts),))
        synth.span("serialize", batch, worker, free[worker], free[worker] + 1, cpu=1_000_000)
        wait = max(0.0, free[worker] + 1 - at)
        synth.step(batch, at, at + wait + own, data_wait=wait, forward=own / 2, backward=own / 2)
        synth.add("system", time=int(at * 1e6), rank=None, what="job CPU", value=2.9 if fixed else 1.2, unit="cores")
        synth.add("system", time=int(at * 1e6), rank=None, what="other CPU", value=0.0, unit="cores")
        taken.append(at + wait)
        at += wait + own


RULE = Rule(check=check, example=example, explains="input-bound")
