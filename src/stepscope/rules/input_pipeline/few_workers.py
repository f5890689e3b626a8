"""The loader has too few workers for the available cores.

## What it finds
Training waits for data for more than 5 % of its steps. The workers are busy nearly all the time, compute rather than
wait, and cores are free. A simulation of the loader with more workers makes the step shorter. With `num_workers=0` the
training process is its only worker.

## Why it costs time
Batches arrive at the time of one batch divided by the number of workers. Free cores could load more of them meanwhile.

## What to do
Use the number of workers in the advice: the fewest that are nearly as good as any. Keep them between epochs with
`persistent_workers=True`. Each worker needs memory for its copy of the data set and for its prefetched batches.

## How the gain is predicted
The loader is simulated from the recorded batches with each number of workers. It runs on the job's cores, beside
training and other processes. The range includes the known errors of the simulation. It also includes the slowdown when
more cores are busy, which one run cannot measure.

## When it is wrong
Workers that wait (CPU time well below wall time) are another problem, and so are idle workers: see `uneven-batches`.
The simulation does not know limits of memory bandwidth, of a shared lock or of a disk. There, more workers may not
help.
"""

from collections.abc import Iterator

from stepscope.analyses.input_pipeline.lib.loader_facts import loader_facts
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.core.finding import Advice, Evidence, Finding, Rule, Title, Value
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
    waiting_evidence,
)
from stepscope.models.loader_model import LoaderChange

__all__ = ["RULE"]


def check(run: Run) -> Iterator[Finding]:
    found = input_stall(run)
    best = enough_workers(found)
    if found is None or best is None or found.idle >= MAX_IDLE:
        return
    pinned = ", pin_memory=True" if has_gpu(run) else ""
    yield Finding(
        title=Title(
            "num_workers={} is too few: data loading needs {}",
            (Value(found.model.pipeline.workers, "count"), Value(best.workers, "count")),
        ),
        cause="data-reading",
        evidence=_evidence(found),
        gain=gain(found, (LoaderChange(workers=best.workers, persistent=True),), f"num_workers={best.workers}"),
        advice=(
            Advice(
                text=f"Set num_workers={best.workers}, persistent_workers=True{_call_site(run, found)}",
                code=f"DataLoader(..., num_workers={best.workers}, persistent_workers=True{pinned})",
            ),
        ),
        ranks=found.ranks,
        where=loader_facts(run, found.model.pipeline.rank).where,
        replaces=("slow-transform", "slow-collate"),
    )


def _call_site(run: Run, found: InputStall) -> str:
    return loader_facts(run, found.model.pipeline.rank).at


def _evidence(found: InputStall) -> tuple[Evidence, ...]:
    computing = Evidence(label="CPU-bound share", value=found.computing, unit="ratio", source="loader_stages")
    busy = Evidence(label="worker busy share", value=found.busy, unit="ratio", source="loader_workers")
    causes = (busy, cores(found.model.pipeline), computing) if found.model.pipeline.workers else (
        computing, cores(found.model.pipeline)
    )  # fmt: skip
    return (making(found), *causes, *waiting_evidence(found))


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


RULE = Rule(check=check, example=example, explains="input-bound")
