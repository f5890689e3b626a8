"""Workers wait for a lock that they share.

## What it finds
Training waits for data for more than 5 % of its steps. Half or more of the loading time is neither CPU time nor a wait
for a core. And a third or more of the workers' sampled lines acquire a lock. Known locks are those of `multiprocessing`
(lock, semaphore, condition), `fcntl.flock` and `lockf`, and the packages `filelock`, `portalocker` and `fasteners`.

## Why it costs time
Only one worker at a time runs the code under a shared lock. With any number of workers, batches come no faster than one
worker runs that code. The others wait.

## What to do
Remove the lock: give each worker its own connection, open file or cache, opened at its first sample. If something must
be guarded, hold the lock briefly: read under it, decode after it. While the lock is there, fewer workers are as fast
and take less memory.

## How the gain is predicted
The wait for the lock is its share of the samples, times the loading time of a batch. The loader is simulated without
it, and with a fourth of it. The range includes the known errors of the simulation.

## When it is wrong
Only known locks are recognized, by their lines in the samples. A lock inside a C library (HDF5 has one per process), a
database or a server looks like waiting for files. Without sampled lines the rule cannot look. That includes workers
that restart so often that few samples are taken.
"""

from collections.abc import Iterator
from math import inf

import polars as pl

from stepscope.analyses.input_pipeline.lib.lock_waits import lock_waits, waits_for_locks
from stepscope.analyses.lib.line_places import LOADING_TIME, line_place
from stepscope.core.finding import Advice, Evidence, Finding, Place, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.models.input_stall import MAX_IDLE, InputStall, gain, input_stall, making, pays, waiting_evidence
from stepscope.models.loader_model import LoaderChange, predict

__all__ = ["RULE"]

STAYS = 0.25  # of the waiting, where the lock is held for less instead of done without


def check(run: Run) -> Iterator[Finding]:
    found = input_stall(run)
    if found is None or not found.model.pipeline.workers or found.idle < MAX_IDLE:
        return
    lines = lock_waits(run, found.model.pipeline.rank)
    if not waits_for_locks(run, found.model.pipeline.rank):
        return
    share, samples = min(float(lines["share"].sum()), found.idle), int(lines["samples"].sum())
    changes = tuple(_without(found, share * part) for part in (1.0, 1 - STAYS))
    if not pays(found, predict(found.model, changes)[0]):
        return
    where = _where(lines)
    yield Finding(
        title=_title(share, where),
        cause="data-reading",
        evidence=_evidence(found, share, samples),
        gain=gain(found, changes, "lock wait 75 % to 100 % shorter"),
        advice=_ADVICE,
        ranks=found.ranks,
        where=where,
    )


def _without(found: InputStall, gone: float) -> LoaderChange:
    """A pipeline in which that share of making a batch is gone, from the part that waits longest."""
    part = found.idlest
    spent = gone * float(found.model.pipeline.fetch[:, 1].mean())
    factor = part.idle / (part.idle - spent) if spent < part.idle else inf
    return LoaderChange(faster=((part.name, factor),), persistent=True)


def _title(share: float, where: tuple[Place, ...]) -> Title:
    told = Value(share, "ratio")
    return (
        Title("Workers wait {} of loading time for a lock at {}", (told, where[0]))
        if where
        else Title("Workers wait {} of loading time for a lock", (told,))
    )


def _evidence(found: InputStall, share: float, samples: int) -> tuple[Evidence, ...]:
    wait, workers = waiting_evidence(found)
    return (
        making(found),
        Evidence(label="lock wait share", value=share, unit="ratio", source="loader_lines"),
        workers,
        Evidence(label="I/O or lock wait", value=found.idle, unit="ratio", source="loader_stages"),
        Evidence(label="lock samples", value=samples, unit="count", source="loader_lines"),
        wait,
    )


def _where(lines: pl.DataFrame) -> tuple[Place, ...]:
    return tuple(
        line_place(row, row["share"], LOADING_TIME)
        for row in lines.head(1).iter_rows(named=True)
        if row["file"] is not None and row["line"] is not None
    )


_ADVICE = (
    Advice(
        text="Give each worker its own copy of what the lock guards, opened for its first sample",
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
