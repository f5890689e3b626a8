"""Files that hold memory and no times, such as snapshots of the allocator: the answer is what fills the peak."""

from dataclasses import replace

import polars as pl

from stepscope.analyses.memory.memory_at_peak import memory_at_peak
from stepscope.analyses.memory.memory_peaks import memory_peaks
from stepscope.core.report import Block, Table
from stepscope.core.run import Run, chain

__all__ = ["DEVICE", "by_category", "device_name", "fullest_device", "holds_memory_only", "what_fills_the_peak"]

DEVICE = ["rank", "device_type", "device"]
"""The columns that name a device in the tables of memory."""

_TABLES = ("memory", "host", "device", "steps")
LARGEST = 5  # categories on the first screen


def holds_memory_only(run: Run) -> bool:
    """Whether nothing but memory was recorded."""
    recorded: tuple[tuple[int, str], ...] = run.per_rank(_recorded, chain)
    return {table for _, table in recorded} == {"memory"}


def _recorded(run: Run) -> tuple[tuple[int, str], ...]:
    """For each rank, which of these tables have rows of it."""
    held = [(rank, table) for table in _TABLES for rank in run.optional(table, "rank")["rank"].drop_nulls().unique()]
    return tuple(sorted(held))


def what_fills_the_peak(run: Run) -> list[Block]:
    """Memory at the peak of the fullest device, by category."""
    device = fullest_device(memory_peaks(run))
    rows = memory_at_peak(run).join(device, on=DEVICE, how="semi", nulls_equal=True)
    if rows.is_empty():
        return []
    table = by_category(rows, device_name(device))
    return [replace(table, rows=table.rows[:LARGEST])]


def fullest_device(peaks: pl.DataFrame) -> pl.DataFrame:
    """The fullest device; an accelerator rather than the CPU, which seldom runs out."""
    level = pl.coalesce("allocated", "rise")
    order = peaks.with_columns(on_cpu=pl.col("device_type").eq_missing("CPU"), level=level)
    order = order.sort("on_cpu", "share", "level", descending=[False, True, True], nulls_last=True)
    return order.select(DEVICE).head(1)


def device_name(device: pl.DataFrame) -> str:
    """`CUDA 0, rank 0`; `rank 0` where the file does not say which device."""
    rank, kind, number = device.row(0)
    place = " ".join(str(part) for part in (kind, number) if part is not None)
    return f"{place}, rank {rank}" if place else f"rank {rank}"


def by_category(rows: pl.DataFrame, place: str) -> Table:
    """Bytes of each category of `rows`, which are of memory_at_peak, and its share of the peak."""
    sums = rows.group_by("category").agg(pl.col("bytes", "share").sum())
    sums = sums.sort("bytes", "category", descending=[True, False])
    title = f"Memory at the peak of {place}"
    return Table(
        title, (("category", None), ("bytes", "bytes"), ("share", "ratio")), tuple(sums.iter_rows()),
        source="memory_at_peak",
    )  # fmt: skip
