"""Figures of operators, grouped by whatever calls have in common: a name, shapes, a call stack."""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.group_cummax import reached_before
from stepscope.analyses.lib.host_events import categories
from stepscope.analyses.lib.markers import step_markers
from stepscope.analyses.lib.result_tables import alike, quotient
from stepscope.analyses.operators.lib.operator_calls import OperatorCalls, operator_calls, work_inside
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.schema import Column

__all__ = ["FIGURES", "grouped", "in_order", "numbered"]

FIGURES = (
    Column("calls", pl.Int64, "count", "how often it ran"),
    Column("host_total", pl.Int64, "ns", "time on the host, with everything inside"),
    Column("host_self", pl.Int64, "ns", "time on the host, without operators, annotations and calls inside"),
    Column("device_total", pl.Int64, "ns", "sum of the device work it and the operators inside it started"),
    Column("device_self", pl.Int64, "ns", "sum of the device work it started itself"),
    Column("device_busy", pl.Int64, "ns", "time with any of the work in device_total"),
    Column("tensor_core_eligible", pl.Boolean, None, "it or one inside multiplies matrices, or used such cores"),
    Column("tensor_core_total", pl.Int64, "ns", "part of device_total in tensor or matrix core kernels"),
    Column("tensor_core_self", pl.Int64, "ns", "part of device_self in tensor or matrix core kernels"),
    Column("tensor_core_share", pl.Float64, "ratio", "share of device_total in tensor or matrix core kernels"),
    Column("flops", pl.Float64, "count", "FLOPs of it and the operators inside, where known; null: none are"),
    Column("per_step", pl.Float64, "count", "calls per step; null without step markers"),
)
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_ON_DEVICE = ("device_total", "device_self", "device_busy", "tensor_core_total", "tensor_core_self")


def grouped(run: Run, keys: pl.DataFrame) -> pl.DataFrame:
    """The columns of `keys`, one row for each combination, and FIGURES; what is inside a call of its key counts once.

    `keys` has a row for each row of `operator_calls(run).figures`, and `rank` among its columns. Enumerations become
    texts.
    """
    calls = operator_calls(run)
    group, groups = numbered(keys)
    outermost = _outermost(calls, group)
    figures = calls.figures.drop("rank", "name").with_columns(group=pl.Series(group), outermost=pl.Series(outermost))
    outer = {name: pl.col(name).filter("outermost") for name in ("host", "device_total", "tensor_total", "flops")}
    rows = figures.group_by("group").agg(
        on_device=pl.col("on_device").first(),
        calls=pl.len(),
        host_total=outer["host"].sum(),
        host_self=pl.col("host_self").sum(),
        device_total=outer["device_total"].sum(),
        device_self=pl.col("device_self").sum(),
        tensor_core_eligible=pl.col("eligible").any(),
        tensor_core_total=outer["tensor_total"].sum(),
        tensor_core_self=pl.col("tensor_self").sum(),
        flops=pl.when(outer["flops"].count() > 0).then(outer["flops"].sum()),
    )
    busy = _busy(run, group, outermost)
    rows = rows.join(busy, on="group", how="left").with_columns(pl.col("device_busy").fill_null(0))
    steps = step_markers(run).group_by("rank").agg(steps=pl.len())
    share = pl.when(pl.col("device_total") > 0).then(quotient(pl.col("tensor_core_total"), pl.col("device_total")))
    return (
        groups.join(rows, on="group")
        .with_columns(pl.when("on_device").then(pl.col(*_ON_DEVICE)))
        .join(steps, on="rank", how="left")
        .with_columns(
            pl.col(pl.Enum).cast(pl.String),
            tensor_core_share=share,
            per_step=quotient(pl.col("calls"), pl.col("steps")),
        )
    )


def in_order(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Rows of each rank by device_self, then host_self, largest first, then by the columns `names`."""
    order = {"rank": False, "device_self": True, "host_self": True, **dict.fromkeys(names, False)}
    return rows.sort(*order, descending=list(order.values()), nulls_last=True)


def numbered(keys: pl.DataFrame) -> tuple[Ints, pl.DataFrame]:
    """For each row the number of its combination of values, and the combinations with their number as `group`."""
    named = [name for name, kind in keys.schema.items() if isinstance(kind, pl.Enum)]
    if len(named) == 1 and alike(keys.drop(named)):
        return _numbered_names(keys, named[0])
    groups = keys.unique(maintain_order=True).with_columns(group=pl.int_range(pl.len(), dtype=pl.Int64))
    varying = [name for name in keys.columns if groups[name].n_unique() > 1] or keys.columns[:1]
    joined = keys.select(varying).join(groups, on=varying, how="left", maintain_order="left", nulls_equal=True)
    return joined["group"].to_numpy(), groups


def _numbered_names(keys: pl.DataFrame, name: str) -> tuple[Ints, pl.DataFrame]:
    """As `numbered`, where nothing but an enumeration differs: its codes are looked up, which takes a tenth."""
    codes = keys[name].to_physical().fill_null(len(categories(keys[name]))).to_numpy()
    first = np.full(len(categories(keys[name])) + 1, -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of equal codes the last assignment stays
    rows = np.sort(first[first >= 0])
    number = np.empty(len(first), dtype=np.int64)
    number[codes[rows]] = np.arange(len(rows))
    return number[codes], keys[rows].with_columns(group=pl.int_range(pl.len(), dtype=pl.Int64))


def _outermost(calls: OperatorCalls, group: Ints) -> Bools:
    """Whether no call around a call has its group."""
    parent = calls.tree.nesting.parent
    of_row = np.full(len(parent), -1, dtype=np.int64)
    of_row[calls.rows] = group
    outermost = np.ones(len(group), dtype=np.bool_)
    inside, around = np.arange(len(group)), parent[calls.rows]
    while True:
        inside, around = inside[around >= 0], around[around >= 0]
        if not len(inside):
            return outermost
        outermost[inside[of_row[around] == group[inside]]] = False
        around = parent[around]


def _busy(run: Run, group: Ints, outermost: Bools) -> pl.DataFrame:
    """Length of the union of the work of each group: each span adds what lies behind all earlier ends."""
    try:
        work = work_inside(run)
    except MissingData:
        return pl.DataFrame(schema={"group": pl.Int64, "device_busy": pl.Int64})
    call = work["call"].to_numpy()
    rows = np.flatnonzero(outermost[call])
    rows = rows[np.argsort(group[call[rows]], kind="stable")]
    of, start, end = group[call[rows]], work["start"].to_numpy()[rows], work["end"].to_numpy()[rows]
    fresh = np.maximum(end - np.maximum(start, reached_before(of, end)), 0)
    first = np.flatnonzero(np.diff(of, prepend=-1))
    busy = np.add.reduceat(fresh, first) if len(first) else fresh
    return pl.DataFrame({"group": of[first], "device_busy": busy})
