"""Workers wait for files or the network while they load batches.

## What it finds
Training waits for data for more than 5 % of its steps, and the workers are busy nearly all the time. But half or more
of the loading time is neither CPU time nor a wait for a core. A simulation of the loader with more workers makes the
step shorter.

## Why it costs time
A worker sends one request at a time and waits for the answer: from a remote file system, object storage, a database, or
many small files on a disk. Single requests do not get faster, but many can run at once.

## What to do
Use more workers than cores, as many as the advice names: a waiting worker needs no core. Or send fewer requests: pack
small files into large ones read in order, keep the data on a local disk, or prefetch in threads.

## How the gain is predicted
The loader is simulated from the recorded batches with more workers, where waiting takes no core. The range is the error
of the simulation, and 10 % of the step on top: measured 79 to 83 % where the simulation said at most 70 to 73 %.

## When it is wrong
With a disk or network at its limit, more workers do not help: answers take longer under load. The simulation does not
know that limit. A shared lock looks the same, unless the workers' sampled lines show a known one. The first pass over
data is slow if later passes find it in the page cache.
"""

from collections.abc import Iterator

from stepscope.analyses.input_pipeline.lib.hot_lines import hot_lines
from stepscope.analyses.input_pipeline.lib.lock_waits import waits_for_locks
from stepscope.core.finding import Advice, Evidence, Finding, Place, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.input_stall import (
    MAX_IDLE,
    InputStall,
    cores,
    enough_workers,
    gain,
    input_stall,
    making,
    short,
    waiting_evidence,
)
from stepscope.models.loader_model import LoaderChange

__all__ = ["RULE"]

QUIETER = 0.1  # of the step may go on top: measured 3 to 10 % above what the simulation said


def check(run: Run) -> Iterator[Finding]:
    found = input_stall(run)
    best = enough_workers(found)
    if found is None or best is None or found.idle < MAX_IDLE:
        return
    if waits_for_locks(run, found.model.pipeline.rank):
        return
    where = hot_lines(run, found.ranks[0], found.idlest.place, found.idlest.library)
    yield Finding(
        title=_title(found.idle, where),
        cause="data-reading",
        evidence=_evidence(found),
        gain=gain(
            found, (LoaderChange(workers=best.workers, persistent=True),), f"num_workers={best.workers}", QUIETER
        ),
        advice=(
            Advice(
                text=f"Set num_workers={best.workers}: a worker that waits for I/O needs no core",
                code=f"DataLoader(..., num_workers={best.workers}, persistent_workers=True)",
            ),
            Advice(text="Pack small files into large ones read in order, or copy them to a local disk"),
        ),
        ranks=found.ranks,
        where=where,
    )


def _title(idle: float, where: tuple[Place, ...]) -> Title:
    share = Value(idle, "ratio")
    if where:
        return Title("Data loading waits {} for I/O at {}", (share, where[0]))
    return Title("Data loading waits {} for files or the network", (share,))


def _evidence(found: InputStall) -> tuple[Evidence, ...]:
    source, waiting = "loader_stages", found.idlest
    wait, workers = waiting_evidence(found)
    return (
        Evidence(
            label=f"{short(waiting.name)} wait per batch", value=waiting.idle, unit="ns",
            source="loader_transforms",
        ),
        Evidence(label="CPU-bound share", value=found.computing, unit="ratio", source=source),
        workers,
        Evidence(label="I/O wait share", value=found.idle, unit="ratio", source=source),
        making(found),
        cores(found.model.pipeline),
        wait,
    )  # fmt: skip


def example(synth: Synth, fixed: bool) -> None:
    """Making a batch takes 240 ms, nearly all of it for answers from a remote file system."""
    workers, length = (14, 20) if fixed else (2, 120)
    parts = (("read", "data.download", 230, 2), ("sample", "data.Pictures", 6, 6), ("collate", "torch.c", 4, 4))
    used = 1.65 if fixed else 0.275
    synth.loading(length=length, own=20, workers=workers, cores=2, parts=parts, used=used, waited=0.0)


RULE = Rule(check=check, example=example, explains="input-bound")
