"""Operators against the roofline of their device: what they reach, what limits them, and what the distance costs.

One row is an operator with its input shapes and precision on a device. In a rank without device work, device is null:
the time is that of the host, and the roof is unknown. `total` is the sum of the kernels that its calls started, ns.
`flops` and `bytes` follow from the shapes; bytes are the least that must move, each input once and each output once.
The roof of a call is the longer of two times: its FLOPs at the device's peak for the precision, and its bytes at the
memory bandwidth; `roofline` is that time over the time taken. It exceeds 1 where caches spare the memory, and where an
algorithm (Winograd, FFT) needs fewer operations. `lost` is the time taken beyond the roof. `limit` is launch where the
mean call takes less than 5 µs, which no roof explains. Else it is compute or memory, whichever takes longer at its
peak. Definition: Williams, Waterman and Patterson, "Roofline", 2009. Peaks: `core/gpus.toml`, from the vendors' data
sheets.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import RANK, quotient, shaped
from stepscope.analyses.operators.lib.roofline_times import limit, timed_calls
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device; null: the host"),
    Column("operator", pl.String, None, "operator"),
    Column("kind", pl.String, None, "GEMM, convolution, attention, normalization, softmax, element-wise, …"),
    Column("input_dims", pl.String, None, "shapes of the inputs, JSON"),
    Column("precision", pl.String, None, "type of the inputs; tf32: float32 on tensor cores; null: unknown"),
    Column("calls", pl.Int64, "count", "how often it ran"),
    Column("total", pl.Int64, "ns", "sum of the device work of the calls"),
    Column("share", pl.Float64, "ratio", "share of the device's computing time"),
    Column("roofline", pl.Float64, "ratio", "time at the roof over time taken; null: device or work not known"),
    Column("limit", pl.String, None, "compute, memory, or launch: too short for either; null: unknown"),
    Column("lost", pl.Int64, "ns", "time beyond the roof, not below 0"),
    Column("speed", pl.Float64, "FLOP/s", "arithmetic over time"),
    Column("bandwidth", pl.Float64, "GB/s", "least traffic over time"),
    Column("intensity", pl.Float64, None, "FLOP per byte of least traffic"),
    Column("flops", pl.Float64, "FLOP", "arithmetic of all calls; null: shapes or arguments unknown"),
    Column("bytes", pl.Float64, "bytes", "least traffic of all calls; null: shapes or types unknown"),
)
_KEYS = ("rank", "device", "name", "kind", "input_dims", "precision")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and device, most time lost first. Raises MissingData without recorded shapes."""
    found = timed_calls(run)
    every = pl.concat([part.select("rank", "device", "time") for part in (found.calls, found.unknown)])
    wholes = every.group_by("rank", "device").agg(whole=pl.col("time").sum())
    rows = found.calls.group_by(_KEYS, maintain_order=True).agg(
        calls=pl.len(),
        total=pl.col("time").sum(),
        **{name: _sum(name) for name in ("flops", "bytes", "computing", "moving", "ideal")},
    )
    rows = rows.join(wholes, on=("rank", "device"), how="left", nulls_equal=True)
    total, flops, moved, ideal = (pl.col(name) for name in ("total", "flops", "bytes", "ideal"))
    some = total > 0
    rows = rows.with_columns(
        operator="name",
        share=pl.when(pl.col("whole") > 0).then(quotient(total, pl.col("whole"))),
        roofline=pl.when(some).then(quotient(ideal, total)),
        limit=limit(quotient(total, pl.col("calls")), pl.col("computing"), pl.col("moving")),
        lost=(total - ideal).clip(lower_bound=0).round(),
        speed=pl.when(some).then(quotient(flops, total) * 1e9),
        bandwidth=pl.when(some).then(quotient(moved, total)),
        intensity=pl.when(moved > 0).then(quotient(flops, moved)),
    )
    order = {"rank": False, "device": False, "lost": True, "total": True, "name": False, "input_dims": False,
             "precision": False}  # fmt: skip
    return shaped(rows.sort(*order, descending=list(order.values()), nulls_last=True), COLUMNS)


def _sum(name: str) -> pl.Expr:
    """The sum of a column, null if any value is."""
    return pl.when(pl.col(name).is_not_null().all()).then(pl.col(name).sum())


LEADING = (
    "operator",
    "kind",
    "calls",
    "total",
    "share",
    "roofline",
    "limit",
    "lost",
    "input_dims",
    "precision",
    "speed",
    "bandwidth",
)
ANALYSIS = roofline = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
