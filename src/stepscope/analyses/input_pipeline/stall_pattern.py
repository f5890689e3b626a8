"""Whether training stalls at every Nth batch, as it does where N workers begin together and are all too slow.

One row is a loader with two workers or more on a rank. A stall is a wait for a batch of at least half of the longest
ordinary wait (the 95th percentile). `period` is the most frequent distance between one stall and the next, in batches;
`regular` the part of the distances that have it; `in_stalls` the part of all waiting in stalls. A `period` equal to
`workers` says that the workers run in lockstep. All make a batch in the same time; training uses these up, then waits
for all workers. More workers, or a cheaper sample, shorten it; a larger prefetch_factor does not. Only runs of batches
that were all recorded are looked at.
"""

import polars as pl

from stepscope.analyses.input_pipeline.loader_stages import IN_WORKERS, RECORD_LOADING
from stepscope.analyses.lib.result_tables import RANK, table
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "stall_pattern"]

ENOUGH = 3  # distances: fewer are no pattern
_ORDINARY, _HALF = 0.95, 0.5  # the first batches wait for the start of the workers, which is no ordinary wait
_NAMED = ("rank", "loader")

COLUMNS = (
    RANK,
    Column("loader", pl.Int64, None, "number of the DataLoader"),
    Column("workers", pl.Int64, "count", "its workers"),
    Column("batches", pl.Int64, "count", "batches looked at"),
    Column("stalls", pl.Int64, "count", "stalls among them"),
    Column("period", pl.Int64, "count", "batches from a stall to the next, most often"),
    Column("regular", pl.Float64, "ratio", "part of the distances that are the period"),
    Column("stall", pl.Float64, "ns", "mean stall"),
    Column("in_stalls", pl.Float64, "ratio", "part of all waiting"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and loader. Raises MissingData where no loader has two workers and enough stalls."""
    spans = run.table("loader_spans", how=RECORD_LOADING).filter(pl.col("iterator").is_not_null())
    workers = spans.group_by(_NAMED).agg(workers=pl.col("worker").drop_nulls().n_unique())
    waits = spans.filter((pl.col("stage") == "wait") & (pl.col("weight") == 1)).sort("start")
    rows = [
        (*key, workers.row(by_predicate=_same(key))[2], *found)
        for key, own in waits.group_by(_NAMED, maintain_order=True)
        if (found := _pattern(own)) is not None
    ]
    rows = [row for row in rows if row[2] > 1]
    if not rows:
        raise MissingData("stalls of a loader with several workers", how=f"{IN_WORKERS}, for more batches")
    return table(sorted(rows, key=lambda row: (row[0], row[1] is None, row[1] or 0)), COLUMNS)


def _same(key: tuple[object, ...]) -> pl.Expr:
    rank, loader = key
    return (pl.col("rank") == rank) & pl.col("loader").eq_missing(pl.lit(loader, dtype=pl.Int64))


def _pattern(waits: pl.DataFrame) -> tuple[object, ...] | None:
    """The columns from `batches` on."""
    length = waits["end"] - waits["start"]
    ordinary = length.quantile(_ORDINARY, "lower")
    stalls = waits.with_columns(length=length).filter(pl.col("length") >= _HALF * (ordinary or 0.0))
    distances = stalls.select(
        pl.col("batch").diff().over("iterator", "epoch").alias("distance")
    )["distance"].drop_nulls()  # fmt: skip
    if distances.len() < ENOUGH or not ordinary:
        return None
    period, count = distances.value_counts(sort=True).sort(["count", "distance"], descending=[True, False]).row(0)
    mean, whole = stalls["length"].mean(), int(length.sum())
    return waits.height, stalls.height, period, count / distances.len(), mean, int(stalls["length"].sum()) / whole


ANALYSIS = stall_pattern = Analysis(compute=compute, columns=COLUMNS, scope="rank")
