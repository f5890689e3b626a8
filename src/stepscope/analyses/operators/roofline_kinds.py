"""Kinds of work against the roofline of their device: matrix products, convolutions, attention, element-wise, …

One row is a kind of work on a device. The kind unknown is work without a formula: fused and compiled kernels, custom
operators, replayed graphs. The totals, ns, add up to the computing time of the device exactly: all kernels but
communication, copies within the device and sets, each for itself. Of the other columns only calls count whose FLOPs and
bytes are known: `known` is their share of the time. `roofline` is the time at the roof over the time taken, `lost` the
difference. As `roofline` otherwise, which has the definition, the source and each operator.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import RANK, quotient, shaped
from stepscope.analyses.operators.lib.roofline_times import timed_calls
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device; null: the host"),
    Column("gpu", pl.String, None, "product whose peaks were taken; null: not in the data of peaks"),
    Column("architecture", pl.String, None, "its architecture"),
    Column("kind", pl.String, None, "GEMM, convolution, attention, normalization, softmax, element-wise, …, unknown"),
    Column("calls", pl.Int64, "count", "calls of operators; of unknown, pieces of device work"),
    Column("total", pl.Int64, "ns", "sum of their device work"),
    Column("share", pl.Float64, "ratio", "share of the device's computing time"),
    Column("known", pl.Float64, "ratio", "share of the time with known FLOPs and bytes"),
    Column("roofline", pl.Float64, "ratio", "time at the roof over time taken, of the known calls"),
    Column("lost", pl.Int64, "ns", "time of the known calls beyond the roof, not below 0"),
    Column("speed", pl.Float64, "FLOP/s", "arithmetic over time of the known calls"),
    Column("bandwidth", pl.Float64, "GB/s", "least traffic over time of the known calls"),
    Column("flops", pl.Float64, "FLOP", "arithmetic of the known calls"),
    Column("bytes", pl.Float64, "bytes", "least traffic of the known calls"),
)
UNKNOWN = "unknown"
_DEVICE = ("rank", "device")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and device, longest first. Raises MissingData without recorded shapes."""
    found = timed_calls(run)
    calls = found.calls.select(*_DEVICE, "gpu", "architecture", "kind", "time", "flops", "bytes", "ideal")
    names = calls.select(*_DEVICE, "gpu", "architecture").unique(_DEVICE, keep="first", maintain_order=True)
    unknown = found.unknown.select(*_DEVICE, "time", kind=pl.lit(UNKNOWN))
    unknown = unknown.join(names, on=_DEVICE, how="left", nulls_equal=True)
    every = pl.concat([calls, unknown], how="diagonal")
    known = pl.col("flops").is_not_null() & pl.col("bytes").is_not_null()
    time, has_roof = pl.col("time"), pl.col("ideal").is_not_null()
    rows = every.group_by(*_DEVICE, "gpu", "architecture", "kind", maintain_order=True).agg(
        calls=pl.len(),
        total=time.sum(),
        known_time=time.filter(known).sum(),
        flops=_sum(pl.col("flops"), known),
        bytes=_sum(pl.col("bytes"), known),
        ideal=_sum(pl.col("ideal"), has_roof),
        roofed=time.filter(has_roof).sum(),
        lost=_sum((time - pl.col("ideal")).clip(lower_bound=0), has_roof),
    )
    assert rows["total"].sum() == every["time"].sum()
    total, some = pl.col("total"), pl.col("known_time") > 0
    rows = rows.with_columns(
        share=pl.when(total.sum().over(_DEVICE) > 0).then(quotient(total, total.sum().over(_DEVICE))),
        known=pl.when(total > 0).then(quotient(pl.col("known_time"), total)),
        speed=pl.when(some).then(quotient(pl.col("flops"), pl.col("known_time")) * 1e9),
        bandwidth=pl.when(some).then(quotient(pl.col("bytes"), pl.col("known_time"))),
        roofline=pl.when(pl.col("roofed") > 0).then(quotient(pl.col("ideal"), pl.col("roofed"))),
        lost=pl.col("lost").round(),
    )
    order = {"rank": False, "device": False, "total": True, "kind": False}
    return shaped(rows.sort(*order, descending=list(order.values()), nulls_last=True), COLUMNS)


def _sum(values: pl.Expr, where: pl.Expr) -> pl.Expr:
    """The sum over rows, null if there are none."""
    return pl.when(where.any()).then(values.filter(where).sum())


LEADING = ("kind", "calls", "total", "share", "roofline", "lost", "known", "speed", "bandwidth")
ANALYSIS = roofline_kinds = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
