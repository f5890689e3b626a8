"""Kernels with the operator that launched each, and the figures of a group of them."""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.device_work import device_work, work_names
from stepscope.analyses.lib.host_events import HostTree
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.result_tables import RECORD_TRACE_ON_GPU, at_rows, quotient
from stepscope.core.errors import MissingData
from stepscope.core.kernels import name_test
from stepscope.core.run import Run
from stepscope.core.schema import Column
from stepscope.core.tensor_cores import uses_tensor_cores

__all__ = ["DEVICE", "FIGURES", "figures", "kernel_work", "owner_names"]

DEVICE = Column("device", pl.Int32, None, "index of the device")
FIGURES = (
    Column("calls", pl.Int64, "count", "how often it ran"),
    Column("total", pl.Int64, "ns", "sum of durations"),
    Column("share", pl.Float64, "ratio", "total divided by that of all kernels of the device"),
    Column("mean", pl.Float64, "ns", "mean duration"),
    Column("median", pl.Float64, "ns", "median duration"),
    Column("deviation", pl.Float64, "ns", "standard deviation of the durations (n - 1); null: one call"),
    Column("max", pl.Int64, "ns", "longest duration"),
    Column("min", pl.Int64, "ns", "shortest duration"),
    Column("blocks_per_sm", pl.Float64, "count", "blocks of the grid divided by the number of SMs"),
    Column("occupancy", pl.Float64, "ratio", "estimated achieved occupancy"),
    Column("tensor_cores", pl.Boolean, None, "the name tells of tensor or matrix cores"),
)


def kernel_work(run: Run, *columns: str) -> pl.DataFrame:
    """Kernels of all devices: rank, device, name, operator, duration, blocks_per_sm, occupancy, and named columns.

    `name` and `operator` are enumerations; `operator` is null where no operator or annotation is known. Raises
    MissingData without kernels.
    """
    found = launches(run)
    work = device_work(run, "blocks_per_sm", "occupancy", *columns).drop("role")
    kernels = work.with_columns(
        name=work_names(run), operator=owner_names(found.tree, found.operator), duration=pl.col("end") - pl.col("start")
    ).filter(pl.col("kind") == "kernel")
    if kernels.is_empty():
        raise MissingData("kernels", how=RECORD_TRACE_ON_GPU)
    return kernels


def figures(kernels: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    """FIGURES of kernels with equal `keys`, which hold rank, device and name; enumerations become texts."""
    duration = pl.col("duration")
    rows = kernels.group_by(keys).agg(
        calls=pl.len(),
        total=duration.sum(),
        mean=duration.mean(),
        median=duration.median(),
        deviation=duration.std(),
        max=duration.max(),
        min=duration.min(),
        blocks_per_sm=_weighted("blocks_per_sm"),
        occupancy=_weighted("occupancy"),
    )
    rows = rows.with_columns(pl.col(pl.Enum).cast(pl.String))
    whole = pl.col("total").sum().over("rank", "device")
    rows = rows.with_columns(share=pl.when(whole > 0).then(quotient(pl.col("total"), whole)))
    assert rows["calls"].sum() == kernels.height
    return rows.with_columns(tensor_cores=name_test(rows["name"], uses_tensor_cores))


def owner_names(tree: HostTree | None, rows: npt.NDArray[np.int64]) -> pl.Series:
    """Names of operators and annotations by their row in the tree; null for -1 and for markers of steps.

    They are an enumeration.
    """
    if tree is None or tree.frame.is_empty():
        return pl.Series([None], dtype=pl.Enum([])).new_from_index(0, len(rows))
    return at_rows(tree.name, np.where((rows >= 0) & ~tree.steps[rows], rows, -1))


def _weighted(column: str) -> pl.Expr:
    """Mean of a column weighted by duration; the plain mean when all durations are 0.

    Sums of floating point are taken in order: `sum` takes them in another one where other ranks know nothing.
    """
    known = pl.col(column).filter(pl.col(column).is_not_null())
    weight = pl.col("duration").filter(pl.col(column).is_not_null())
    weighted, plain = (values.cum_sum().last() for values in (known * weight, known))
    return pl.when(weight.sum() > 0).then(weighted / weight.sum()).otherwise(plain / known.len())
