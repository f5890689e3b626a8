"""What each DataLoader worker did with its time: made batches, or had nothing to do.

One row is a worker of a loader on a rank; workers of one number that follow each other, epoch by epoch, are one row.
Times are ns, with the weights of the spans. `busy` is the time in fetch, `putting` that between a fetch and the next
asking for indices. A worker that waits for indices has delivered all that was asked of it: `ahead` is such time while
the training process was computing (the queue is full, nothing is lost), `starved` while the training process itself
waited for a batch: another worker was behind, and this one was not allowed to help, as batches are handed over in order
and each takes the next index only when one is used up. `sending` is time of the feeder thread, beside all of these.
`running` is the part of busy in which the thread had a core. The rest is `core_wait`, in which it could have run but
had no core, by the scheduler's own count (the second field of Linux's /proc/PID/schedstat), and `blocked`, in which it
waited for a disk, the network or a lock. Where `core_wait` is large, all times of the table are those of a busy
machine.
"""

import polars as pl

from stepscope.analyses._tables import RANK, by_rank, table
from stepscope.analyses.loader_stages import IN_WORKERS, RECORD_LOADING
from stepscope.core.errors import MissingData
from stepscope.core.intervals import overlap_each, spans
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "loader_workers"]

COLUMNS = (
    RANK,
    Column("loader", pl.Int64, None, "number of the DataLoader"),
    Column("worker", pl.Int32, None, "number of the worker"),
    Column("batches", pl.Int64, "count", "batches it made"),
    Column("busy", pl.Int64, "ns", "making batches"),
    Column("putting", pl.Int64, "ns", "handing them to its feeder thread"),
    Column("ahead", pl.Int64, "ns", "without work while the training process computed"),
    Column("starved", pl.Int64, "ns", "without work while the training process waited for a batch"),
    Column("sending", pl.Int64, "ns", "its feeder thread: serialising, waiting for the pipe and writing"),
    Column("running", pl.Float64, "ratio", "part of busy in which it had a core; null: not read"),
    Column("core_wait", pl.Int64, "ns", "part of busy in which it waited for a core; null: not read"),
    Column("blocked", pl.Int64, "ns", "the rest of busy, in which it waited for something else; null: not read"),
)
LEADING = (
    "rank", "loader", "worker", "batches", "busy", "running", "core_wait", "blocked", "starved", "ahead", "putting",
    "sending",
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
    starved = int((overlap_each(spans(idle), spans(waits)) * idle["weight"].to_numpy()).sum())
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
        int(fetches["weight"].sum()), busy, sums.get("put", 0), waiting - starved, starved, sending, running, waited,
        blocked,
    )  # fmt: skip


ANALYSIS = loader_workers = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
