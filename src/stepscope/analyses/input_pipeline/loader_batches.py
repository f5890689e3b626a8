"""When each batch was ready, and when training requested it.

One row is a batch of a loader with workers, recorded by both the worker and the training process. `index_sent` is when
its indices were sent. Its fetch runs from `fetch_start` to `fetch_end`. At `ready` its last byte was in the pipe. The
training process asked for it at `requested` and had it at `received`.

`late` is ready - requested, 0 for a batch that was ready in time. The rest of received - requested is taking it out of
the queue. `slack` is requested - ready, 0 for a late batch: how long it lay in the queue.

`late_in` is the stage that took most of `late`, and `late_duration` how much of it. The stages are before fetch, fetch,
put, serialize and send. Before fetch, the worker loaded an earlier batch or got the indices late. In put, the feeder
thread had not begun. Both are null for a batch that was ready, or without a record of all stages. The arrows of
`stepscope export RUN --overlay loader` have the same loader, iterator, epoch and batch.
"""

from itertools import pairwise

import polars as pl

from stepscope.analyses.input_pipeline.loader_stages import IN_WORKERS, RECORD_LOADING
from stepscope.analyses.lib.result_tables import RANK, shaped
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "loader_batches"]

_KEYS = ("rank", "loader", "iterator", "epoch", "batch")
COLUMNS = (
    RANK,
    Column("loader", pl.Int64, None, "number of the DataLoader"),
    Column("iterator", pl.Int64, None, "number of its iterator"),
    Column("epoch", pl.Int64, None, "epoch of the iterator"),
    Column("batch", pl.Int64, None, "number of the batch in it"),
    Column("worker", pl.Int32, None, "worker that loaded it"),
    Column("index_sent", pl.Int64, "ns", "indices sent; null: not recorded", "run"),
    Column("fetch_start", pl.Int64, "ns", "fetch began", "run"),
    Column("fetch_end", pl.Int64, "ns", "fetch ended", "run"),
    Column("ready", pl.Int64, "ns", "sent by the feeder thread", "run"),
    Column("requested", pl.Int64, "ns", "the training process asks for it", "run"),
    Column("received", pl.Int64, "ns", "the training process has it", "run"),
    Column("late", pl.Int64, "ns", "ready - requested, at least 0"),
    Column("slack", pl.Int64, "ns", "requested - ready, at least 0"),
    Column("late_in", pl.String, None, "before fetch, fetch, put, serialize or send: what took most of late"),
    Column("late_duration", pl.Int64, "ns", "part of late in that stage"),
)
LEADING = (
    "rank",
    "loader",
    "epoch",
    "batch",
    "worker",
    "late",
    "late_in",
    "late_duration",
    "slack",
    "requested",
    "ready",
)
_STAGES = ("before fetch", "fetch", "put", "serialize", "send")
_BOUNDS = ("requested", "fetch_start", "fetch_end", "copying", "copied", "ready")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, iterator and batch. Raises MissingData where no batch of a worker was recorded on both sides."""
    spans = run.table("loader_spans", how=RECORD_LOADING).filter(pl.col("iterator").is_not_null())
    rows = (
        _of(spans, "fetch", "fetch_start", "fetch_end", "worker")
        .join(_of(spans, "send", "_", "ready"), on=_KEYS, nulls_equal=True)
        .join(_of(spans, "wait", "requested", "received"), on=_KEYS, nulls_equal=True)
        .join(_of(spans, "send index", "__", "index_sent"), on=_KEYS, how="left", nulls_equal=True)
        .join(_of(spans, "serialize", "copying", "copied"), on=_KEYS, how="left", nulls_equal=True)
    )
    if rows.is_empty():
        raise MissingData("batches made by DataLoader workers", how=IN_WORKERS)
    late = pl.col("ready") - pl.col("requested")
    rows = rows.with_columns(late=late.clip(lower_bound=0), slack=(-late).clip(lower_bound=0))
    return shaped(_caused(rows).sort(_KEYS), COLUMNS)


def _caused(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `late_in` and `late_duration`: the stages lie one after another, so their parts of `late` add up to it."""
    edges = [
        pl.col(name).clip(lower_bound="requested", upper_bound=pl.max_horizontal("requested", "ready"))
        for name in _BOUNDS
    ]
    parts = pl.concat_list(after - before for before, after in pairwise(edges))
    known = (pl.col("late") > 0) & pl.col("copied").is_not_null()
    found = rows.with_columns(parts=pl.when(known).then(parts))
    names = pl.col("parts").list.arg_max().replace_strict(range(len(_STAGES)), _STAGES, return_dtype=pl.String)
    return found.with_columns(late_in=names, late_duration=pl.col("parts").list.max())


def _of(spans: pl.DataFrame, stage: str, start: str, end: str, *more: str) -> pl.DataFrame:
    """The spans of a stage by batch, their times under other names."""
    chosen = spans.filter(pl.col("stage") == stage).unique(_KEYS, keep="first", maintain_order=True)
    return chosen.select(*_KEYS, *more, pl.col("start").alias(start), pl.col("end").alias(end))


ANALYSIS = loader_batches = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
