"""What the samples of a loader are made of: data sets, transforms, decoders, readers, labels and collation.

One row is a class or function in the fetches of a loader on a rank. Times are sums over the recorded batches with the
weights of their spans. `wall` and `cpu` include everything inside. `own` is wall time without inner calls that have
rows of their own. For a transform that excludes decoding: Pillow reads pixels when they are first asked for. For a data
set it is what its `__getitem__` does itself. A label is a `record_function` of the user's own code; its place is the
line that entered it. `share` is own / the time in the fetches whose samples, or whose collation, were recorded. The
rest to 1 is torch's own fetcher, and recording.
"""

import numpy as np
import polars as pl

from stepscope.analyses.input_pipeline.loader_stages import RECORD_LOADING
from stepscope.analyses.lib.result_tables import RANK, quotient, shaped
from stepscope.core.errors import MissingData
from stepscope.core.nesting import nest
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "loader_transforms"]

COLUMNS = (
    RANK,
    Column("loader", pl.Int64, None, "number of the DataLoader; null: one inside a worker, or of another thread"),
    Column("stage", pl.String, None, "sample, transform, decode, read, label or collate"),
    Column("name", pl.String, None, "class, function or label"),
    Column("file", pl.String, None, "where it is defined; null: not in Python"),
    Column("line", pl.Int64, None, "its line"),
    Column("count", pl.Int64, "count", "calls"),
    Column("wall", pl.Int64, "ns", "time in them"),
    Column("cpu", pl.Int64, "ns", "CPU time in them"),
    Column("own", pl.Int64, "ns", "wall time without calls inside that have rows of their own"),
    Column("mean", pl.Float64, "ns", "wall / count"),
    Column("share", pl.Float64, "ratio", "own / time in the fetches in which such calls were recorded"),
)
LEADING = ("rank", "loader", "stage", "name", "count", "mean", "own", "share", "cpu", "wall")
_KEYS = ("rank", "loader", "stage", "name", "file", "line")
_BATCH = ("rank", "pid", "loader", "iterator", "epoch", "batch")
_COLLATES = pl.col("stage") == "collate"
_CALLS = ("sample", "transform", "decode", "read", "label", "collate")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, loader and own time. Raises MissingData where no sample was recorded."""
    spans = run.table("loader_spans", how=RECORD_LOADING)
    length = (pl.col("end") - pl.col("start")) * pl.col("weight")
    calls = spans.filter(pl.col("stage").is_in(_CALLS)).sort("rank", "pid", "start")
    if calls.is_empty():
        raise MissingData("samples of a DataLoader", how=RECORD_LOADING)
    weight = pl.col("weight")
    rows = calls.with_columns(own=_own(calls)).group_by(_KEYS).agg(
        count=weight.sum(), wall=length.sum(), cpu=(pl.col("cpu") * weight).sum(), own=(pl.col("own") * weight).sum()
    ).with_columns(collates=_COLLATES).join(
        _fetching(spans, calls), on=("rank", "loader", "collates"), how="left", nulls_equal=True
    ).with_columns(
        mean=quotient(pl.col("wall"), pl.col("count")),
        share=pl.when(pl.col("fetching") > 0).then(quotient(pl.col("own"), pl.col("fetching"))),
    )  # fmt: skip
    order = ("rank", "loader", "own", "stage", "name")
    return shaped(rows.sort(order, descending=[name == "own" for name in order]), COLUMNS)


def _fetching(spans: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Time in the fetches in which collations (`collates`) and other calls were recorded, with the weights of these."""
    weights = calls.group_by(*_BATCH, collates=_COLLATES).agg(pl.col("weight").mean())
    fetches = spans.filter(pl.col("stage") == "fetch").select(*_BATCH, length=pl.col("end") - pl.col("start"))
    known = weights.join(fetches, on=_BATCH, nulls_equal=True)
    return known.group_by("rank", "loader", "collates").agg(fetching=(pl.col("length") * pl.col("weight")).sum())


def _own(calls: pl.DataFrame) -> pl.Series:
    """Self time of each call; calls of one process and loader are nested by time."""
    tracks = calls.select(pl.struct("rank", "pid", "iterator").rank("dense")).to_series().to_numpy().astype(np.int64)
    nesting = nest(tracks, calls["start"].to_numpy(), calls["end"].to_numpy())
    return pl.Series(nesting.self_time, dtype=pl.Int64)


ANALYSIS = loader_transforms = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
