"""Start and end of DataLoader workers, and how long training waits for them.

One row is the life of a worker: one for all epochs with persistent workers, else one per epoch. Times are ns.
`start_begin` is when the training process begins to create the iterator. `queued` is the time until the worker's
process exists: they are created one after another. `starting` is the time until its loop begins. With spawn and
forkserver it imports modules and receives the data set then. `starting_cpu` is its CPU time up to there. `setting_up`
is the time until it asks for work: seeds, `worker_init_fn`, the iterator of an IterableDataset. `first_fetch` is its
first batch, `later_fetch` the median of the others. A longer first fetch means cold caches, opened files or a one-time
setup.

`waited` covers `start_begin` to the end of its first fetch: the time in which the training process started workers or
waited for a batch. `waited_start` is the part of it before the first fetch began. Workers start in parallel, so these
do not add up over workers: the maximum is the cost of a start.

`ending` is the time from the order to end to the end of the worker's loop. It is null where the worker was killed, or
its iterator still exists. `ended` is how long training waited until all workers of the iterator had ended.
"""

import polars as pl

from stepscope.analyses.input_pipeline.loader_stages import IN_WORKERS, RECORD_LOADING
from stepscope.analyses.lib.result_tables import RANK, by_rank, table
from stepscope.core.errors import MissingData
from stepscope.core.intervals import overlap_each, spans
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "loader_starts"]

COLUMNS = (
    RANK,
    Column("loader", pl.Int64, None, "number of the DataLoader"),
    Column("iterator", pl.Int64, None, "number of its iterator"),
    Column("worker", pl.Int32, None, "number of the worker"),
    Column("start_begin", pl.Int64, "ns", "the training process begins to start the workers", "run"),
    Column("queued", pl.Int64, "ns", "until the process is made; null: not known"),
    Column("starting", pl.Int64, "ns", "until its loop begins; null: not known"),
    Column("starting_cpu", pl.Int64, "ns", "CPU time that the process had used by then"),
    Column("setting_up", pl.Int64, "ns", "until it asks for work"),
    Column("first_fetch", pl.Int64, "ns", "making its first batch; null: it made none"),
    Column("later_fetch", pl.Int64, "ns", "median of its other batches; null: there was none"),
    Column("waited", pl.Int64, "ns", "until its first batch is made, while training waited; null: it made none"),
    Column("waited_start", pl.Int64, "ns", "the part of it before that fetch began"),
    Column("ending", pl.Int64, "ns", "from the order to end to the end of its loop; null: not recorded"),
    Column("ended", pl.Int64, "ns", "training waited for the end of all workers; null: not recorded"),
)
LEADING = (
    "rank", "loader", "iterator", "worker", "starting", "setting_up", "first_fetch", "later_fetch", "waited",
    "waited_start", "ended",
)  # fmt: skip
_WAITING = ("start workers", "wait")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, loader, iterator and worker. Raises MissingData where no start was recorded."""
    recorded = run.table("loader_spans", how=RECORD_LOADING).filter(pl.col("iterator").is_not_null())
    rows = [
        (rank, loader, iterator, worker, *_life(life, main))
        for rank, of_rank in by_rank(recorded.sort("rank")).items()
        for (loader, iterator), own in of_rank.sort("loader", "iterator").group_by(
            "loader", "iterator", maintain_order=True
        )
        if (main := own.filter(pl.col("worker").is_null())).filter(pl.col("stage") == "start workers").height
        for (worker,), life in own.drop_nulls("worker").sort("worker").group_by("worker", maintain_order=True)
    ]
    if not rows:
        raise MissingData("starts of DataLoader workers", how=IN_WORKERS)
    return table(rows, COLUMNS)


def _life(own: pl.DataFrame, main: pl.DataFrame) -> tuple[object, ...]:
    """The columns from `asked` on, of a worker with these spans, by those of the training process."""
    starting, setting_up, end, fetches = (
        own.filter(pl.col("stage") == stage).sort("start") for stage in ("start", "set up", "end", "fetch")
    )
    began, stopped = (main.filter(pl.col("stage") == f"{what} workers").sort("start") for what in ("start", "stop"))
    asked: int = began["start"].item(0)
    lengths = fetches.select(pl.col("end") - pl.col("start")).to_series()
    later = lengths[1:].median()
    return (
        asked,
        max(0, starting["start"].item(0) - asked) if starting.height else None,
        _length(starting),
        starting["cpu"].first(),
        _length(setting_up),
        lengths.first(),
        round(later) if isinstance(later, float) else None,
        *_waited(main, asked, fetches),
        max(0, end["start"].item(0) - stopped["start"].item(0)) if end.height and stopped.height else None,
        _length(stopped),
    )


def _length(rows: pl.DataFrame) -> int | None:
    return rows["end"].item(0) - rows["start"].item(0) if rows.height else None


def _waited(main: pl.DataFrame, asked: int, fetches: pl.DataFrame) -> tuple[int | None, int | None]:
    """Time in which the training process waited, until the first fetch ended and until it began."""
    if fetches.is_empty():
        return None, None
    waits = spans(main.filter(pl.col("stage").is_in(_WAITING)))
    until = pl.DataFrame({"start": [asked, asked], "end": [fetches["end"].item(0), fetches["start"].item(0)]})
    within, before = overlap_each(spans(until), waits).tolist()
    return within, before


ANALYSIS = loader_starts = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
