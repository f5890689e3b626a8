"""The loader has too few workers for the cores there are.

## What it finds
Training waits for batches for more than 5 % of its steps while the workers are busy nearly all the time, make batches
with CPU time, and cores are free: a simulation of this very loader with more workers says that the step gets shorter.
With `num_workers=0` the training process is its own only worker.

## Why it costs time
Batches come as fast as the workers make them: the time of one batch divided by the workers. Free cores could make more
of them meanwhile.

## What to do
Use the number of workers that the advice names: the fewest that are nearly as good as any. Keep them between epochs
with `persistent_workers=True`. Each worker takes memory for its copy of the data set and for the batches that it keeps
ready.

## How the gain is predicted
The loader is simulated from the recorded batches with each number of workers, on the cores that the job may use, beside
the training process and other programs. The range has the known errors of the simulation, and how much dearer work may
get when more cores are busy, which one run cannot tell.

## When it is wrong
Workers that wait (CPU time well below wall time) are another problem, and so are workers that stand idle: uneven
batches. Memory bandwidth, a lock that workers share or a disk at its limit can make more workers useless; the
simulation does not know of them.
"""

from collections.abc import Iterator

from stepscope.analyses._work import has_gpu
from stepscope.core.finding import Advice, Evidence, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.predict.loader_model import Change
from stepscope.predict.waiting_input import (
    MAX_IDLE,
    WaitingInput,
    cores_for,
    cores_used,
    enough_workers,
    gain,
    making,
    waiting_evidence,
    waiting_input,
)

__all__ = ["RULE"]


def check(run: Run) -> Iterator[Finding]:
    found = waiting_input(run)
    best = enough_workers(found)
    if found is None or best is None or found.idle >= MAX_IDLE:
        return
    pinned = ", pin_memory=True" if has_gpu(run) else ""
    yield Finding(
        title="The loader has too few workers",
        cause="data-reading",
        evidence=_evidence(found),
        gain=gain(found, (Change(workers=best.workers, persistent=True),), "more workers"),
        advice=(
            Advice(
                text="Make batches in more worker processes, and keep these between epochs",
                code=f"DataLoader(..., num_workers={best.workers}, persistent_workers=True{pinned})",
            ),
        ),
        ranks=found.ranks,
    )


def _evidence(found: WaitingInput) -> tuple[Evidence, ...]:
    rows = [
        *waiting_evidence(found),
        making(found),
        Evidence(label="mean part of it on a core", value=found.computing, unit="ratio", source="loader_stages"),
        cores_for(found),
    ]
    if found.model.pipeline.workers:
        rows.append(
            Evidence(label="mean share of time that workers are busy", value=found.busy, unit="ratio",
                     source="loader_workers")
        )  # fmt: skip
    return (*rows, *cores_used(found))


def example(synth: Synth, fixed: bool) -> None:
    """Workers need 120 ms for a batch, training 10 ms; no single transform takes most of it."""
    workers, length = (14, 10) if fixed else (1, 120)
    parts = (
        ("transform", "data.Resize", 40, 40),
        ("transform", "data.Flip", 40, 40),
        ("transform", "data.Normalize", 36, 36),
        ("collate", "data.collate", 4, 4),
    )
    synth.loading(length=length, own=10, workers=workers, cores=32, parts=parts, used=13 if fixed else 1.1)


RULE = Rule(check=check, example=example, explains="input-bound", replaces=("slow-transform", "slow-collate"))
