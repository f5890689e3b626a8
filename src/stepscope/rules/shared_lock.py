"""Workers take turns at a lock that they share.

## What it finds
Training waits for batches for more than 5 % of its steps; half or more of making a batch is neither CPU time nor a wait
for a core; and of the sampled lines of the workers a third or more is where a lock is acquired: a lock, semaphore or
condition of `multiprocessing`, `fcntl.flock` and `lockf`, or the packages `filelock`, `portalocker` and `fasteners`.

## Why it costs time
What is done under a lock that all workers share is done by one of them at a time. However many workers there are,
batches come no faster than one worker alone would do that part; the others stand in line.

## What to do
Do without the lock: give each worker a connection, an open file or a cache of its own, opened when its first sample is
asked for. Where something has to be guarded, hold the lock for as short as possible: read under it, decode after it.
Fewer workers take less memory and are as fast, as long as the lock is there.

## How the gain is predicted
The time that workers wait for the lock is the share of the samples in which they do, of the time that making a batch
takes. The loader is simulated without it, and with a fourth of it left. The range includes the known errors of the
simulation.

## When it is wrong
Only known locks are recognised, by the library's lines in the samples. A lock inside a library in C (HDF5 has one for
each process), in a data base or on a server shows as waiting, which is told as that of files. Without sampled lines, or
with workers that are started anew so often that few are taken, it cannot be known.
"""

from collections.abc import Iterator
from math import inf

import polars as pl

from stepscope.analyses._lock_waits import lock_waits, waits_for_locks
from stepscope.core.finding import Advice, Evidence, Finding, Place, Rule
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.predict.loader_model import Change, predict
from stepscope.predict.waiting_input import (
    MAX_IDLE,
    WaitingInput,
    gain,
    making,
    pays,
    waiting_evidence,
    waiting_input,
)

__all__ = ["RULE"]

STAYS = 0.25  # of the waiting, where the lock is held for less instead of done without


def check(run: Run) -> Iterator[Finding]:
    found = waiting_input(run)
    if found is None or not found.model.pipeline.workers or found.idle < MAX_IDLE:
        return
    lines = lock_waits(run, found.model.pipeline.rank)
    if not waits_for_locks(run, found.model.pipeline.rank):
        return
    share, samples = min(float(lines["share"].sum()), found.idle), int(lines["samples"].sum())
    changes = tuple(_without(found, share * part) for part in (1.0, 1 - STAYS))
    if not pays(found, predict(found.model, changes)[0]):
        return
    yield Finding(
        title="Workers take turns at a lock that they share",
        cause="data-reading",
        evidence=_evidence(found, share, samples),
        gain=gain(found, changes, "without three fourths to all of the waiting for the lock"),
        advice=_ADVICE,
        ranks=found.ranks,
        where=_where(lines),
    )


def _without(found: WaitingInput, gone: float) -> Change:
    """A pipeline in which that share of making a batch is gone, from the part that waits longest."""
    part = found.idlest
    spent = gone * float(found.model.pipeline.fetch[:, 1].mean())
    factor = part.idle / (part.idle - spent) if spent < part.idle else inf
    return Change(faster=((part.name, factor),), persistent=True)


def _evidence(found: WaitingInput, share: float, samples: int) -> tuple[Evidence, ...]:
    return (
        *waiting_evidence(found),
        making(found),
        Evidence(
            label="mean part of it that waits for no core", value=found.idle, unit="ratio", source="loader_stages"
        ),
        Evidence(label="mean part of it at a lock", value=share, unit="ratio", source="loader_lines"),
        Evidence(label="samples at a lock", value=samples, unit="count", source="loader_lines"),
    )


def _where(lines: pl.DataFrame) -> tuple[Place, ...]:
    return tuple(
        Place(file=row["file"], line=row["line"], symbol=row["function"] or "", text=(row["text"] or "").strip())
        for row in lines.head(1).iter_rows(named=True)
        if row["file"] is not None and row["line"] is not None
    )


_ADVICE = (
    Advice(
        text="Give each worker what the lock guards for itself, opened when its first sample is asked for",
        code="def __getitem__(self, index):\n"
        "    if self.reader is None:  # None in __init__: one for each worker, and no lock\n"
        "        self.reader = Reader(self.path)\n"
        "    return work(self.reader.read(index))",
    ),
    Advice(
        text="Or hold the lock for reading only, and work on the sample after it",
        code="with self.lock:\n    raw = self.reader.read(index)\nreturn work(raw)",
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    """4 workers; a batch is 16 ms under a lock and 1 ms beside it, and training takes 5 ms."""
    workers, own = 4, 5.0
    length, lasts = (own, 16.0) if fixed else (16.25, 64.0)
    parts = (("sample", "data.Guarded", lasts, 0.5), ("collate", "torch.c", 1, 1))
    used = (0.5 + 1 + 0.1 + own) / length
    synth.loading(
        length=length, own=own, workers=workers, cores=32, parts=parts, used=used, waited=0.0, feed=0.1, steps=60
    )
    for step in range(60):
        for part in range(8):
            locked = part < 6 and not fixed
            synth.add(
                "worker_stacks", worker=step % workers, loader=0, pid=str(101 + step % workers),
                time=round((step * length + part) * MS), weight=round(lasts / 8 * MS), file="/home/me/data.py",
                line=12 if locked else 13, function="__getitem__", text="with self.lock:" if locked else "read(index)",
                leaf="multiprocessing/synchronize.py:95 __enter__" if locked else None,
            )  # fmt: skip


RULE = Rule(check=check, example=example, explains="input-bound")
