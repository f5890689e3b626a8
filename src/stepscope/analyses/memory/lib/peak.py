"""When the memory of each device was fullest, and the blocks that lived then."""

import polars as pl

from stepscope.analyses.memory.lib.lifetimes import BEFORE, UNKNOWN, lives, unmatched_frees
from stepscope.analyses.memory.lib.memory_events import DEVICE, memory_events
from stepscope.core.run import Run

__all__ = ["UNRECORDED", "at_peak", "peaks"]

UNRECORDED = "not in the events"
"""What totals hold and neither the events nor what was there before explain: it happened in threads not watched."""


def peaks(run: Run) -> pl.DataFrame:
    """One row per device, in the order of `memory_events`: key, DEVICE, first, before, peak, peak_row, time.

    `first` is its first row in `memory_events`. `before` is what was allocated when the recording began, null where the
    source gives no totals. `peak` is the highest level, first reached at `time` after event `peak_row`: -1 where it is
    `before`.
    """
    return run.once(_peaks)


def at_peak(run: Run) -> pl.DataFrame:
    """What the peaks consist of: key, category, row, bytes, blocks; bytes of a device add up to its peak exactly.

    `row` is that of the allocation in `memory_events`, null for the sums of what has no address, was there before, or
    is not in the events.
    """
    return run.once(_at_peak)


def _peaks(run: Run) -> pl.DataFrame:
    events = memory_events(run)
    by_device = events.group_by("key", maintain_order=True).agg(
        pl.col(*DEVICE).first(),
        first=pl.col("row").first(),
        began=pl.col("time").first(),
        before=(pl.col("total_allocated") - pl.col("bytes")).first(),
        highest=pl.col("level").max(),
    )
    reached = events.join(by_device.select("key", "highest"), on="key").filter(pl.col("level") == pl.col("highest"))
    reached = reached.sort("row").unique("key", keep="first", maintain_order=True)
    found = by_device.join(reached.select("key", "time", peak_row="row"), on="key", how="left")
    start = pl.coalesce("before", pl.lit(0))
    empties = (start > pl.col("highest")).fill_null(False) | pl.col("highest").is_null()
    return found.sort("key").select(
        "key", *DEVICE, "first", "before",
        peak=pl.when(empties).then(start).otherwise("highest"),
        peak_row=pl.when(empties).then(-1).otherwise("peak_row"),
        time=pl.when(empties).then("began").otherwise("time"),
    )  # fmt: skip


def _at_peak(run: Run) -> pl.DataFrame:
    summits = peaks(run)
    peak_row = summits.select("key", "peak_row")
    alive = lives(run).join(peak_row, on="key", how="left", maintain_order="left")
    until = pl.coalesce("freed", "again")
    alive = alive.filter((pl.col("row") <= pl.col("peak_row")) & (until.is_null() | (until > pl.col("peak_row"))))
    blocks = alive.select("key", "category", "row", "bytes", blocks=pl.lit(1, dtype=pl.Int64))
    rows = pl.concat([blocks, _without_address(run, peak_row), _before(run, summits)])
    known = rows.group_by("key").agg(known=pl.col("bytes").sum())
    rest = summits.join(known, on="key", how="left").with_columns(bytes=pl.col("peak") - pl.col("known").fill_null(0))
    rest = rest.filter(pl.col("bytes") != 0)
    rows = pl.concat([rows, _sums(rest, pl.lit(UNRECORDED))])
    sums = rows.group_by("key").agg(sum=pl.col("bytes").sum())
    assert summits.join(sums, on="key", how="left").select((pl.col("sum").fill_null(0) == pl.col("peak")).all()).item()
    return rows


def _without_address(run: Run, peak_row: pl.DataFrame) -> pl.DataFrame:
    """Sums by category of events without addresses, which cannot be paired."""
    events = memory_events(run).filter(pl.col("address").is_null()).join(peak_row, on="key")
    sums = (
        events.filter(pl.col("row") <= pl.col("peak_row"))
        .group_by("key", pl.col("category").fill_null(UNKNOWN))
        .agg(pl.col("bytes").sum())
    )
    return _sums(sums.filter(pl.col("bytes") != 0).sort("key", "category"), pl.col("category"))


def _before(run: Run, summits: pl.DataFrame) -> pl.DataFrame:
    """What was there when the recording began, less what of it was freed until the peak.

    Frees of more than was there are of blocks that threads which the profiler does not watch allocated meanwhile.
    """
    frees = unmatched_frees(run).join(summits.select("key", "peak_row"), on="key")
    frees = frees.filter(pl.col("row") <= pl.col("peak_row")).group_by("key").agg(freed=pl.col("bytes").sum())
    left = summits.join(frees, on="key", how="left").drop_nulls("before")
    left = left.with_columns(bytes=pl.col("before") - pl.col("freed").fill_null(0))
    return _sums(left.filter(pl.col("bytes") > 0), pl.lit(BEFORE))


def _sums(rows: pl.DataFrame, category: pl.Expr) -> pl.DataFrame:
    nothing = pl.lit(None, dtype=pl.Int64)
    return rows.select("key", category.alias("category"), nothing.alias("row"), "bytes", nothing.alias("blocks"))
