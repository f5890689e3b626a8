"""Prefetched batches hardly fit into shared memory.

## What it finds
Loaders whose prefetched batches need more than 80 % of the space free in `/dev/shm` when the job began. That is workers
× `prefetch_factor` batches, plus two that the training process may hold, of all ranks of a host. The batch size is that
of the tensors in the first recorded batch of each worker. A job that crashed after few steps is enough. In a container
`/dev/shm` has 64 MiB by default.

## Why it costs time
Workers pass tensors through files in `/dev/shm`. When it is full, a worker dies with a bus error or *unable to allocate
shared memory*, and the job with it. That may be hours after the start: when some batches are larger, or when a
checkpoint pauses training and all queues fill up. A step is not longer, so there is no gain per step.

## What to do
Give the container more shared memory: `docker run --shm-size=8g` or `--ipc=host`. In Kubernetes, mount an `emptyDir`
with `medium: Memory` at `/dev/shm`. Or prefetch less: fewer workers, a smaller `prefetch_factor`, pictures as `uint8`
converted on the device.

## How the gain is predicted
No gain is predicted: the finding is about a crash, not about speed.

## When it is wrong
If batch sizes vary a lot, the first ones may not be typical. Later use of `/dev/shm` by other processes is not known.
All hosts of a job are assumed to be alike: the size is that of the host where it was started.
"""

import json
from collections.abc import Iterator

import polars as pl

from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]

FULL = 0.8  # of what was free: batches of a loader differ in size, and pinned queues hold a few more
OF_TORCH = "torch."  # arrays and lists go through a pipe
USED = 2  # batches that the training process holds: while it takes one, the one before is still in its variables
TORCH_PREFETCH = 2  # batches ahead of each worker, unless said otherwise
_HOW = "run it on Linux with `stepscope run -- COMMAND`"


def check(run: Run) -> Iterator[Finding]:
    free = _free(run)
    loaders = run.optional("loaders")
    if len(loaders) and loaders["num_workers"].max() == 0:
        return  # without workers no batch is passed
    keys = ("rank", "pid", "loader")
    shared = run.table("batch_tensors", how=_HOW).filter(pl.col("type").str.starts_with(OF_TORCH))
    sizes = shared.group_by(*keys, "worker").agg(pl.col("bytes").sum())
    sizes = sizes.filter(pl.col("loader").is_not_null()).group_by("rank", "loader").agg(pl.col("bytes").mean())
    loaders = loaders.filter(pl.col("num_workers").fill_null(0) > 0)
    rows = loaders.join(sizes, on=("rank", "loader")).with_columns(
        ahead=pl.col("num_workers") * pl.col("prefetch_factor").fill_null(TORCH_PREFETCH) + USED
    ).with_columns(need=pl.col("ahead") * pl.col("bytes"))  # fmt: skip
    rows, per_host = _fullest(run, rows)
    if per_host <= FULL * free:
        return
    worst = rows.sort("need", "rank", descending=[True, False]).row(0, named=True)
    yield Finding(
        title=Title(
            "Prefetched batches need {} of {} free in /dev/shm", (Value(per_host, "bytes"), Value(free, "bytes"))
        ),
        cause="configuration",
        evidence=(
            Evidence(label="shared memory needed", value=per_host, unit="bytes", source="batch_tensors"),
            Evidence(label="batch size in bytes", value=worst["bytes"], unit="bytes", source="batch_tensors"),
            Evidence(label="maximum batches held", value=worst["ahead"], unit="count", source="loaders"),
            Evidence(label="/dev/shm free at start", value=free, unit="bytes", source="meta"),
        ),
        gain=None,
        advice=(
            Advice(
                text="Give the container more shared memory",
                code="docker run --shm-size=8g IMAGE COMMAND",
                language="shell",
            ),
            Advice(
                text="Or keep fewer batches ready",
                code=f"DataLoader(..., num_workers={worst['num_workers']}, prefetch_factor=1)",
            ),
        ),
        ranks=tuple(sorted(set(rows["rank"].to_list()))),
    )


def _fullest(run: Run, rows: pl.DataFrame) -> tuple[pl.DataFrame, float]:
    """The loaders of the host that needs most, and the bytes it needs."""
    hosts = run.optional("processes").select("rank", "host").unique("rank")
    by_host = rows.join(hosts, on="rank", how="left").partition_by("host")
    fullest = max(by_host, key=lambda host: float(host["need"].sum()), default=rows)
    return fullest, float(fullest["need"].sum())


def _free(run: Run) -> float:
    """Bytes free in /dev/shm when the job began. Raises MissingData where nobody looked."""
    known = run.optional("meta").filter(pl.col("key") == "shared_memory")["value"].drop_nulls()
    found = json.loads(known[0]) if len(known) else None
    free = found.get("free") if isinstance(found, dict) else None
    if not isinstance(free, int | float):
        raise MissingData("size of /dev/shm", how=_HOW)
    return float(free)


def example(synth: Synth, fixed: bool) -> None:
    """4 workers, 2 batches of 8 MiB ahead of each: 80 MiB, in the 64 MiB of a container, or in 8 GiB."""
    free = (8 << 30) if fixed else (64 << 20)
    synth.add("meta", source="run.json", key="shared_memory", value=json.dumps({"size": free, "free": free}))
    synth.add("loaders", loader=0, train=True, dataset="Pictures", num_workers=4, prefetch_factor=2)
    for worker in range(4):
        synth.add("batch_tensors", loader=0, pid=str(100 + worker), worker=worker, type="torch.float32", bytes=8 << 20)
    for step in range(10):
        synth.step(step, 50 * step, 50 * step + 50, data_wait=1, forward=20, backward=25, optimizer=4, samples=32)


RULE = Rule(check=check, example=example)
