"""Busy and idle time of each DataLoader worker.

One row is a worker of a loader on a rank. Workers with the same number in successive epochs are one row. Times are ns,
with the weights of the spans. `busy` is the time in fetch. `enqueueing` is the time from a fetch to the next wait for
indices. A worker that waits for indices is idle: it has delivered all the batches it was given.

`idle_queue_full` is idle time while the training process computes: its queue is full, and nothing is lost.
`idle_out_of_order` is idle time while training waits for a batch. Another worker is behind, and this one cannot help:
batches are delivered in order, and each delivery gives out one new index. `sending` is time of the feeder thread,
beside all of these.

`running` is the share of busy with a core. `core_wait` is time ready to run without a core, from the second field of
Linux's /proc/PID/schedstat. `blocked` is time waiting for a disk, the network or a lock. A large `core_wait` makes all
times of the table longer than on a free machine.
"""

import polars as pl

from stepscope.analyses.input_pipeline.loader_stages import IN_WORKERS, RECORD_LOADING
from stepscope.analyses.lib.result_tables import RANK, by_rank, table
from stepscope.core.errors import MissingData
from stepscope.core.intervals import overlap_each, spans
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "loader_workers"]

COLUMNS = (
    RANK,
    Column("loader", pl.Int64, None, "number of the DataLoader"),
    Column("worker", pl.Int32, None, "number of the worker"),
    Column("batches", pl.Int64, "count", "batches it loaded"),
    Column("busy", pl.Int64, "ns", "loading batches"),
    Column("enqueueing", pl.Int64, "ns", "passing them to its feeder thread"),
    Column("idle_queue_full", pl.Int64, "ns", "idle while the training process computed"),
    Column("idle_out_of_order", pl.Int64, "ns", "idle while the training process waited for a batch"),
    Column("sending", pl.Int64, "ns", "its feeder thread: serializing, waiting for the pipe and writing"),
    Column("running", pl.Float64, "ratio", "share of busy with a core; null: not read"),
    Column("core_wait", pl.Int64, "ns", "part of busy waiting for a core; null: not read"),
    Column("blocked", pl.Int64, "ns", "rest of busy: waiting for I/O or a lock; null: not read"),
)
LEADING = (
    "rank", "loader", "worker", "batches", "busy", "running", "core_wait", "blocked", "idle_out_of_order",
    "idle_queue_full", "enqueueing", "sending",
)  # fmt: skip


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, loader and worker. Raises MissingData where no worker was recorded."""
    recorded = run.table("loader_spans", how=RECORD_LOADING).filter(pl.col("iterator").is_not_null())
    rows = [
        (rank, loader, worker, *_times(own, of_loader.filter(pl.col("stage") == "wait")))
        for rank, of_rank in by_rank(recorded.sort("rank")).items()
        for (loader,), of_loader in of_rank.sort("loader").group_by("loader", maintain_order=True)
        for (worker,), own in of_loader.drop_nulls("worker").sort("worker").group_by("worker", maintain_order=True)
    ]
    if not rows:
        raise MissingData("spans of DataLoader workers", how=IN_WORKERS)
    return table(rows, COLUMNS)


def _times(own: pl.DataFrame, waits: pl.DataFrame) -> tuple[object, ...]:
    """The columns of one worker from `batches` on; `waits` are those of the training process."""
    idle = own.filter(pl.col("stage") == "index wait")
    length = (pl.col("end") - pl.col("start")) * pl.col("weight")
    out_of_order = int((overlap_each(spans(idle), spans(waits)) * idle["weight"].to_numpy()).sum())
    fetches = own.filter(pl.col("stage") == "fetch")
    sums = {stage: int(part.select(length).to_series().sum()) for (stage,), part in own.group_by("stage")}
    busy = sums.get("fetch", 0)
    cpu, waited = (
        None if (known := fetches[name] * fetches["weight"]).null_count() else int(known.sum())
        for name in ("cpu", "core_wait")
    )
    running = None if cpu is None or not busy else min(1.0, cpu / busy)
    waited = None if cpu is None or waited is None else min(waited, max(0, busy - cpu))
    blocked = None if cpu is None or waited is None else max(0, busy - cpu - waited)
    waiting = sums.get("index wait", 0)
    sending = sums.get("serialize", 0) + sums.get("send", 0)
    return (
        int(fetches["weight"].sum()), busy, sums.get("put", 0), waiting - out_of_order, out_of_order, sending, running,
        waited, blocked,
    )  # fmt: skip


ANALYSIS = loader_workers = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
