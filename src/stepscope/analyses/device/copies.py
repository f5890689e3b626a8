"""Copies and sets of device memory by kind: how much, how fast, and how much of their time nothing hides.

One row is a kind on a device: direction and host memory. Directions are HtoD (host to device), DtoH, DtoD, PtoP
(between devices) and memset. Host memory is pageable or pinned. Times are ns; bandwidths GB/s with 10^9 bytes. The
bandwidth of one copy is what the profiler wrote, else its bytes per time; `bandwidth_mean` is bytes divided by time,
over all copies whose size and bandwidth are known. `busy` is the length of the union, `exposed` the part of it without
any kernel, as in `device_time`.
"""

import polars as pl

from stepscope.analyses.device.lib.copies import KINDS, copy_events
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.result_tables import RANK, parts, quotient, table
from stepscope.core.intervals import Spans, spans, subtract, total, union
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device"),
    Column("copy", pl.String, None, "HtoD, DtoH, DtoD, PtoP, …, or memset; null: the name does not say"),
    Column("host_memory", pl.String, None, "pageable or pinned; null: no host memory, or the name does not say"),
    Column("count", pl.Int64, "count", "copies or sets"),
    Column("bytes", pl.Int64, "bytes", "their size together; null: not recorded"),
    Column("total", pl.Int64, "ns", "sum of durations"),
    Column("mean", pl.Float64, "ns", "mean duration"),
    Column("busy", pl.Int64, "ns", "time with any of them"),
    Column("exposed", pl.Int64, "ns", "time with any of them and no kernel"),
    Column("bandwidth_mean", pl.Float64, "GB/s", "bytes per time; null: sizes are not recorded"),
    Column("bandwidth_min", pl.Float64, "GB/s", "slowest"),
    Column("bandwidth_max", pl.Float64, "GB/s", "fastest"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and device, the longest total first. Raises MissingData without copies and sets."""
    copies = copy_events(run)
    kernels = device_work(run).filter(pl.col("kind") == "kernel")
    rows = []
    for part in parts(copies, "rank", "device"):
        rank, device = part.select("rank", "device").row(0)
        beside = union(spans(kernels.filter((pl.col("rank") == rank) & pl.col("device").eq_missing(device))))
        rows += [_row(of_kind, beside) for of_kind in part.partition_by(KINDS)]
    by = ("rank", "device", "total", "copy", "host_memory")
    return table(rows, COLUMNS).sort(by, descending=[name == "total" for name in by])


def _row(copies: pl.DataFrame, kernels: Spans) -> tuple[object, ...]:
    busy = union(spans(copies))
    size = int(copies["bytes"].sum()) if copies["bytes"].is_not_null().any() else None
    time, speeds = total(spans(copies)), copies["bandwidth"]
    return (
        *copies.select(KINDS).row(0), copies.height, size, time, time / copies.height, total(busy),
        total(subtract(busy, kernels)), _together(copies), speeds.min(), speeds.max(),
    )  # fmt: skip


def _together(copies: pl.DataFrame) -> float | None:
    """Bandwidth of copies one after another, None if none is known."""
    known = copies.filter((pl.col("bytes") > 0) & pl.col("bandwidth").is_not_null())
    if known.is_empty():
        return None
    sums = known.select(pl.col("bytes").sum(), time=quotient(pl.col("bytes"), pl.col("bandwidth")).sum())
    return float(sums["bytes"][0] / sums["time"][0])


LEADING = ("copy", "host_memory", "count", "bytes", "total", "exposed", "bandwidth_mean", "mean", "busy")
ANALYSIS = copies = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
