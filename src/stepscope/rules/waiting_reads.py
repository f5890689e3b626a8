"""Workers wait for files or the network while they make batches.

## What it finds
Training waits for batches for more than 5 % of its steps while the workers are busy nearly all the time, but half or
more of making a batch is neither CPU time nor a wait for a core; and a simulation of this very loader with more workers
says that the step gets shorter.

## Why it costs time
A worker asks for one thing at a time and waits for the answer: a remote file system, object storage, a data base, or
many small files on a disk. The answers take as long as they take, but many can be under way at once.

## What to do
Use more workers than there are cores, as many as the advice names: those that wait need no core. Or ask for less often:
pack small files into large ones that are read in order, keep the data on a local disk, or read what is needed next in
threads.

## How the gain is predicted
The loader is simulated from the recorded batches with more workers, where waiting takes no core. The range holds the
error of the simulation.

## When it is wrong
A disk or a link at its limit gives more workers nothing: the answers take longer the more are asked for, which the
simulation does not know. A lock that workers share looks the same, unless the sampled lines of the workers are at
one that is known. The first pass over data is slow where later ones
find them in memory.
"""

from collections.abc import Iterator

from stepscope.analyses._lock_waits import waits_for_locks
from stepscope.analyses._worker_calls import lines_inside
from stepscope.core.finding import Advice, Evidence, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.predict.loader_model import Change
from stepscope.predict.waiting_input import (
    MAX_IDLE,
    WaitingInput,
    cores_for,
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
    if found is None or best is None or found.idle < MAX_IDLE:
        return
    if waits_for_locks(run, found.model.pipeline.rank):
        return
    yield Finding(
        title="Workers wait for files or the network",
        cause="data-reading",
        evidence=_evidence(found),
        gain=gain(found, (Change(workers=best.workers, persistent=True),), "more workers that wait at once"),
        advice=(
            Advice(
                text="Let more workers wait at once: one that waits needs no core",
                code=f"DataLoader(..., num_workers={best.workers}, persistent_workers=True)",
            ),
            Advice(text="Pack small files into large ones that are read in order, or copy them to a local disk first"),
        ),
        ranks=found.ranks,
        where=lines_inside(run, found.ranks[0], found.idlest.place),
    )


def _evidence(found: WaitingInput) -> tuple[Evidence, ...]:
    source, waiting = "loader_stages", found.idlest
    return (
        *waiting_evidence(found),
        making(found),
        Evidence(label="mean part of it that waits for no core", value=found.idle, unit="ratio", source=source),
        Evidence(label="mean part of it on a core", value=found.computing, unit="ratio", source=source),
        Evidence(
            label=f"mean waiting of {waiting.stage} {waiting.name} per batch", value=waiting.idle, unit="ns",
            source="loader_transforms",
        ),
        cores_for(found),
    )  # fmt: skip


def example(synth: Synth, fixed: bool) -> None:
    """Making a batch takes 240 ms, nearly all of it for answers from a remote file system."""
    workers, length = (14, 20) if fixed else (2, 120)
    parts = (("read", "data.download", 230, 2), ("sample", "data.Pictures", 6, 6), ("collate", "torch.c", 4, 4))
    used = 1.65 if fixed else 0.275
    synth.loading(length=length, own=20, workers=workers, cores=2, parts=parts, used=used, waited=0.0)


RULE = Rule(check=check, example=example, explains="input-bound")
