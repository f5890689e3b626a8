"""Few batches take far longer than the others, and training waits for them.

## What it finds
Training waits for batches for more than 5 % of its steps although the workers stand idle for a fifth of their time or
more: a simulation of this very loader with the same workers, but more batches made ahead, says that the step gets
shorter.

## Why it costs time
Batches are handed over in order, and each worker may be only `prefetch_factor` batches ahead. While one worker is busy
with a batch that takes long, training uses up what the others have ready, then waits for it, and the others, which may
go no further, stand idle.

## What to do
Let workers make more ahead: `prefetch_factor=8`. Where the order of the batches does not matter, `in_order=False`
(torch 2.6 and later) hands over what is ready. Or make the large samples smaller once, before training. More batches
ahead take memory: number of workers x `prefetch_factor` x size of a batch.

## How the gain is predicted
The loader is simulated from the recorded batches, drawn anew several times, with the larger `prefetch_factor`. The
range holds how the large batches may fall, and the known errors of the simulation. Where batches are so rare and so
long that a hundred of them tell no mean, the simulation does not fit the run, and the rule is listed as not checked.

## When it is wrong
Batches that are slow because all workers read from one busy disk come together, and more of them ahead do not help for
long. If large samples come too often, workers are busy all the time, and that is another problem.
"""

from collections.abc import Iterator

import numpy as np

from stepscope.core.finding import Advice, Evidence, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.predict.loader_advice import UNORDERED
from stepscope.predict.loader_model import Change, predict
from stepscope.predict.waiting_input import (
    MIN_BUSY,
    NEARLY,
    WaitingInput,
    gain,
    making,
    pays,
    waiting_evidence,
    waiting_input,
)

__all__ = ["RULE"]

TRIED = (4, 8, 16)  # batches ahead of each worker; torch makes 2 ahead, more than 16 take too much memory


def check(run: Run) -> Iterator[Finding]:
    found = waiting_input(run)
    if found is None or not found.model.pipeline.workers or found.busy >= MIN_BUSY:
        return
    ahead = _ahead(found)
    if ahead is None:
        return
    yield Finding(
        title="Training waits for few batches that take far longer than the others",
        cause="data-reading",
        evidence=_evidence(found),
        gain=gain(found, (Change(prefetch=ahead, persistent=True),), "more batches made ahead"),
        advice=(
            Advice(
                text="Let each worker make more batches ahead",
                code=f"DataLoader(..., num_workers={found.model.pipeline.workers}, prefetch_factor={ahead})",
            ),
            UNORDERED,
            Advice(text="Make the largest samples smaller once, before training"),
        ),
        ranks=found.ranks,
        where=found.data_set,
    )


def _ahead(found: WaitingInput) -> int | None:
    """The fewest batches ahead that are nearly as good as any, None where more of them do not pay."""
    tried = [ahead for ahead in TRIED if ahead > found.model.pipeline.prefetch]
    rows = predict(found.model, [Change(prefetch=ahead, persistent=True) for ahead in tried])
    least = min((row.step_ns for row in rows), default=0)
    enough = zip(tried, rows, strict=True)
    return next((n for n, row in enough if row.step_ns <= (1 + NEARLY) * least and pays(found, row)), None)


def _evidence(found: WaitingInput) -> tuple[Evidence, ...]:
    measured, source = found.model.pipeline, "loader_stages"
    walls = measured.fetch[:, 1]
    return (
        *waiting_evidence(found),
        Evidence(label="prefetch_factor", value=measured.prefetch, unit="count", source="loaders"),
        Evidence(label="median time to make a batch", value=float(np.median(walls)), unit="ns", source=source),
        making(found),
        Evidence(label="longest time (no mean) to make a batch", value=float(walls.max()), unit="ns", source=source),
        Evidence(
            label="mean share of time that workers are busy", value=found.busy, unit="ratio", source="loader_workers"
        ),
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
