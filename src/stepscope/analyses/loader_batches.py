"""When each batch was ready, and when it was needed.

One row is a batch of a loader with workers, of which both the worker and the training process recorded their part.
`asked` is when its indices were sent, `begun` and `made` when its fetch began and ended, `ready` when its last byte was
in the pipe, `needed` when the training process asked for it, `had` when it had it. `late` is the time from needed to
ready, 0 for a batch that was ready before it was needed; what remains of had - needed is taking it out of the queue.
`slack` is the time from ready to needed, 0 for a late batch: how long it lay there.

`late_in` is what took most of `late`: before fetch (the worker had not begun, as it made an earlier batch, or was asked
late), fetch, put (its feeder thread had not begun), serialize or send; `late_there` how much of it. Both are null for a
batch that was ready, or of which not all stages were recorded. The arrows of `stepscope export RUN --overlay loader`
have the same loader, iterator, epoch and batch.
"""

from itertools import pairwise

import polars as pl

from stepscope.analyses._tables import RANK, shaped
from stepscope.analyses.loader_stages import IN_WORKERS, RECORD_LOADING
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
    Column("worker", pl.Int32, None, "worker that made it"),
    Column("asked", pl.Int64, "ns", "indices sent; null: not recorded"),
    Column("begun", pl.Int64, "ns", "fetch began"),
    Column("made", pl.Int64, "ns", "fetch ended"),
    Column("ready", pl.Int64, "ns", "sent by the feeder thread"),
    Column("needed", pl.Int64, "ns", "asked for by the training process"),
    Column("had", pl.Int64, "ns", "in the hands of the training process"),
    Column("late", pl.Int64, "ns", "ready - needed, at least 0"),
    Column("slack", pl.Int64, "ns", "needed - ready, at least 0"),
    Column("late_in", pl.String, None, "before fetch, fetch, put, serialize or send: what took most of late"),
    Column("late_there", pl.Int64, "ns", "part of late in it"),
)
LEADING = ("rank", "loader", "epoch", "batch", "worker", "late", "late_in", "late_there", "slack", "needed", "ready")
_STAGES = ("before fetch", "fetch", "put", "serialize", "send")
_BOUNDS = ("needed", "begun", "made", "copying", "copied", "ready")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, iterator and batch. Raises MissingData where no batch of a worker was recorded on both sides."""
    spans = run.table("loader_spans", how=RECORD_LOADING).filter(pl.col("iterator").is_not_null())
    rows = (
        _of(spans, "fetch", "begun", "made", "worker")
        .join(_of(spans, "send", "_", "ready"), on=_KEYS, nulls_equal=True)
        .join(_of(spans, "wait", "needed", "had"), on=_KEYS, nulls_equal=True)
        .join(_of(spans, "send index", "__", "asked"), on=_KEYS, how="left", nulls_equal=True)
        .join(_of(spans, "serialize", "copying", "copied"), on=_KEYS, how="left", nulls_equal=True)
    )
    if rows.is_empty():
        raise MissingData("batches made by DataLoader workers", how=IN_WORKERS)
    late = pl.col("ready") - pl.col("needed")
    rows = rows.with_columns(late=late.clip(lower_bound=0), slack=(-late).clip(lower_bound=0))
    return shaped(_caused(rows).sort(_KEYS), COLUMNS)


def _caused(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `late_in` and `late_there`: the stages lie one after another, so their parts of `late` add up to it."""
    edges = [
        pl.col(name).clip(lower_bound="needed", upper_bound=pl.max_horizontal("needed", "ready")) for name in _BOUNDS
    ]
    parts = pl.concat_list(after - before for before, after in pairwise(edges))
    known = (pl.col("late") > 0) & pl.col("copied").is_not_null()
    found = rows.with_columns(parts=pl.when(known).then(parts))
    names = pl.col("parts").list.arg_max().replace_strict(range(len(_STAGES)), _STAGES, return_dtype=pl.String)
    return found.with_columns(late_in=names, late_there=pl.col("parts").list.max())


def _of(spans: pl.DataFrame, stage: str, start: str, end: str, *more: str) -> pl.DataFrame:
    """The spans of a stage by batch, their times under other names."""
    chosen = spans.filter(pl.col("stage") == stage).unique(_KEYS, keep="first", maintain_order=True)
    return chosen.select(*_KEYS, *more, pl.col("start").alias(start), pl.col("end").alias(end))


ANALYSIS = loader_batches = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
