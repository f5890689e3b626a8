"""Kernels by name.

One row is a kernel name on a device. Times are ns; a sum of durations counts kernels in parallel twice. blocks_per_sm
and occupancy are means weighted by duration over the kernels that carry them, null if none does. `operator` is the one
that started most of the calls. All kernels count, inside and outside of steps. Definition: the kernel view of the
TensorBoard plugin, which takes kernels without a figure as 0 in its means.
"""

import numpy as np
import polars as pl

from stepscope.analyses._launches import Launches, launches
from stepscope.analyses._tables import RANK, RECORD_TRACE_ON_GPU, shaped
from stepscope.core.errors import MissingData
from stepscope.core.kernels import name_test, uses_tensor_cores
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device"),
    Column("name", pl.String, None, "kernel"),
    Column("calls", pl.Int64, "count", "how often it ran"),
    Column("total", pl.Int64, "ns", "sum of durations"),
    Column("mean", pl.Float64, "ns", "mean duration"),
    Column("max", pl.Int64, "ns", "longest duration"),
    Column("min", pl.Int64, "ns", "shortest duration"),
    Column("blocks_per_sm", pl.Float64, "count", "blocks of the grid divided by the number of SMs"),
    Column("occupancy", pl.Float64, "ratio", "estimated achieved occupancy"),
    Column("tensor_cores", pl.Boolean, None, "the name tells of tensor or matrix cores"),
    Column("operator", pl.String, None, "operator or annotation that started most of its calls; null: none known"),
)
KEYS = ("rank", "device", "name")


def compute(run: Run) -> pl.DataFrame:
    """Rows by total time, longest first. Raises MissingData without kernels."""
    found = launches(run)
    kernels = found.work.with_columns(operator=_operators(found), duration=pl.col("end") - pl.col("start"))
    kernels = kernels.filter(pl.col("kind") == "kernel")
    if kernels.is_empty():
        raise MissingData("kernels", how=RECORD_TRACE_ON_GPU)
    duration = pl.col("duration")
    sums = kernels.group_by(KEYS).agg(
        calls=pl.len(),
        total=duration.sum(),
        mean=duration.mean(),
        max=duration.max(),
        min=duration.min(),
        blocks_per_sm=_weighted("blocks_per_sm"),
        occupancy=_weighted("occupancy"),
    )
    counts = kernels.drop_nulls("operator").group_by(*KEYS, "operator").len()
    most = counts.sort("len", "operator", descending=[True, False]).unique(KEYS, keep="first", maintain_order=True)
    rows = sums.join(most, on=KEYS, how="left", nulls_equal=True)
    rows = rows.with_columns(tensor_cores=name_test(rows["name"], uses_tensor_cores))
    return shaped(rows.sort("rank", "device", "total", "name", descending=[False, False, True, False]), COLUMNS)


def _operators(found: Launches) -> pl.Series:
    if found.tree is None:
        return pl.Series([None] * found.work.height, dtype=pl.String)
    names = found.tree.frame["name"].gather(np.maximum(found.operator, 0))
    return pl.select(pl.when(pl.Series(found.operator >= 0)).then(names)).to_series()


def _weighted(column: str) -> pl.Expr:
    """Mean of a column weighted by duration; the plain mean when all durations are 0."""
    known = pl.col(column).filter(pl.col(column).is_not_null())
    weight = pl.col("duration").filter(pl.col(column).is_not_null())
    return pl.when(weight.sum() > 0).then((known * weight).sum() / weight.sum()).otherwise(known.mean())


ANALYSIS = kernels = Analysis(compute=compute, columns=COLUMNS)
