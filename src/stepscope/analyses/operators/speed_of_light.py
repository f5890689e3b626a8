"""How fast could each operator be on its device, and why is it slower?

A row is an operator with its precision on a device, over all of the recording. `total` is the time of its kernels now,
`at_limit` the same at the device's peaks for that precision, `lost` the difference: what better kernels could save at
most. Where shapes, or the peaks, are not known, these are null. One row without an operator holds the kernels of
operators whose work is not known. `why` names what holds most of the distance:

- too short: the mean call takes less than 5 µs, so starting and ending it is most of its time;
- empty SMs: a quarter of the device or more gets no block;
- low occupancy: most of the time passes in kernels with few warps on an SM;
- near the limit: 70 % of the limit or more is reached;
- no tensor cores: matrix work in float32; mixed precision has a higher limit;
- memory-bound or compute-bound: none of these; the limit is that of the memory, or of arithmetic.

The limit of a call is the longer of its arithmetic at the peak and its bytes at the bandwidth, as in `roofline`.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import RANK, quotient, shaped
from stepscope.analyses.operators.lib.flops import HEAVY
from stepscope.analyses.operators.lib.roofline_times import limit, timed_calls
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "speed_of_light"]

MOSTLY_EMPTY = 0.25  # of the multiprocessors: fewer empty ones explain no large distance
NEAR = 0.7  # of the limit: what good kernels reach; few do better

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device; null: the host"),
    Column("operator", pl.String, None, "operator; null: kernels of operators without known work"),
    Column("kind", pl.String, None, "GEMM, convolution, attention, normalization, softmax, element-wise, …"),
    Column("precision", pl.String, None, "type of the inputs; tf32: float32 on tensor cores; null: unknown"),
    Column("calls", pl.Int64, "count", "how often it ran"),
    Column("total", pl.Int64, "ns", "time of its device work"),
    Column("share", pl.Float64, "ratio", "share of the device's computing time"),
    Column("at_limit", pl.Int64, "ns", "the same at the peaks of the device; null: not known"),
    Column("lost", pl.Int64, "ns", "time beyond the limit, not below 0"),
    Column("why", pl.String, None, "what holds most of it; null: not known"),
)
_KEYS = ("rank", "device", "name", "kind", "precision")
_DEVICE = ("rank", "device")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and device, most time lost first. Raises MissingData without recorded shapes."""
    found = timed_calls(run)
    parts = [part.select(*_DEVICE, "time") for part in (found.calls, found.unknown)]
    wholes = pl.concat(parts).group_by(_DEVICE).agg(whole=pl.col("time").sum())
    known = pl.col("ideal").is_not_null().all()
    rows = found.calls.group_by(_KEYS, maintain_order=True).agg(
        pl.col("time", "empty", "sparse", "computing", "moving").sum(),
        calls=pl.len(),
        at_limit=pl.when(known).then(pl.min_horizontal("ideal", "time").sum().round()),
    )
    rest = found.unknown.group_by(_DEVICE).agg(pl.col("time").sum(), calls=pl.len())
    rows = pl.concat([rows, rest.with_columns(calls="calls")], how="diagonal_relaxed")
    rows = rows.join(wholes, on=_DEVICE, how="left", nulls_equal=True).with_columns(
        operator="name",
        total="time",
        share=pl.when(pl.col("whole") > 0).then(quotient(pl.col("time"), pl.col("whole"))),
        lost=(pl.col("time") - pl.col("at_limit")).clip(lower_bound=0),
        why=_why(),
    )
    order = {"rank": False, "device": False, "lost": True, "total": True, "operator": False, "precision": False}
    return shaped(rows.sort(*order, descending=list(order.values()), nulls_last=True), COLUMNS)


def _why() -> pl.Expr:
    """The first that holds, null where the limit is not known."""
    time = pl.col("time")
    plain = pl.col("kind").is_in(HEAVY) & (pl.col("precision") == "float32")
    roof = limit(quotient(time, pl.col("calls")), pl.col("computing"), pl.col("moving"))
    return (
        pl.when(pl.col("at_limit").is_null())
        .then(None)
        .when(roof == "launch")
        .then(pl.lit("too short"))
        .when(pl.col("empty") >= MOSTLY_EMPTY * time)
        .then(pl.lit("empty SMs"))
        .when(pl.col("at_limit") >= NEAR * time)
        .then(pl.lit("near the limit"))
        .when(pl.col("sparse") > time / 2)
        .then(pl.lit("low occupancy"))
        .when(plain)
        .then(pl.lit("no tensor cores"))
        .when(roof == "memory")
        .then(pl.lit("memory-bound"))
        .otherwise(pl.lit("compute-bound"))
    )


LEADING = ("operator", "precision", "total", "share", "at_limit", "lost", "why", "calls", "kind")
ANALYSIS = speed_of_light = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
