"""How full the memory of each device became, against what it holds, what lived there then, and whether it grows."""

import polars as pl

from stepscope.analyses.memory.memory_at_peak import memory_at_peak
from stepscope.analyses.memory.memory_curve import memory_curve
from stepscope.analyses.memory.memory_peaks import memory_peaks
from stepscope.core.report import Bar, Block, Line, Lines, Section
from stepscope.core.run import Run
from stepscope.core.time_slice import began
from stepscope.report.memory_only import DEVICE, by_category, device_name, fullest_device
from stepscope.report.sections import RANKS_SHOWN, excerpt

__all__ = ["SECTION"]

_PEAKS = {
    "rank": "rank", "device_type": "memory of", "device": "device", "allocated": "peak allocated", "reserved":
    "peak reserved", "capacity": "capacity", "share": "share", "unused": "unused at peak", "growth":
    "median growth per step",
}  # fmt: skip
_HOLDERS = {"operator": "operator", "module": "module", "bytes": "bytes", "share": "share", "blocks": "blocks"}
_LEVELS = {"allocated": "allocated", "reserved": "reserved"}
_HELD = 5  # rows of what fills a peak: the rest is seldom worth a change


def build(run: Run) -> list[Block]:
    if not run.rows("memory"):
        return []  # few runs record it: `stepscope show memory_peaks` says how
    peaks = memory_peaks(run)
    blocks = excerpt("Peaks", memory_peaks, peaks, _PEAKS, limit=RANKS_SHOWN, name="memory_peaks")
    device = fullest_device(peaks)
    return [*_curve(run, device), *_living(run, device), *blocks]


def _curve(run: Run, device: pl.DataFrame) -> list[Block]:
    """Memory of the device over time, and what it holds."""
    curve = memory_curve(run).join(device, on=DEVICE, how="semi", nulls_equal=True)
    if curve.height < 2:
        return []
    known = {name: label for name, label in _LEVELS.items() if curve[name].null_count() < curve.height}
    known = known or {"change": "allocated less freed since the recording began"}
    first = int(curve["time"].min())  # type: ignore[arg-type]
    since = curve.with_columns(pl.col("time") - first)
    lines = tuple(Line(label, tuple(since.select("time", name).iter_rows())) for name, label in known.items())
    capacity = curve["capacity"].drop_nulls()
    limits = (Bar("capacity", capacity[0]),) if len(capacity) else ()
    title, start = f"Memory of {device_name(device)}", began(run)
    return [
        Lines(
            title, "time", "ns", "bytes", lines, limits=limits, began=first,
            opens="memory_operators" if run.rows("host") else "", origin=first - start if start is not None else 0,
        )
    ]  # fmt: skip


def _living(run: Run, device: pl.DataFrame) -> list[Block]:
    """Memory at the peak of a device, and who allocated it."""
    rows = memory_at_peak(run).join(device, on=DEVICE, how="semi", nulls_equal=True)
    if rows.is_empty():
        return []
    known = rows.filter(pl.col("category").ne("unknown"))
    blocks: list[Block] = [by_category(rows, device_name(device))] if known.height else []
    named = rows.filter(pl.any_horizontal(pl.col("operator", "module").is_not_null()))
    if named.height:
        held = named.group_by("operator", "module").agg(pl.col("bytes", "share", "blocks").sum())
        held = held.sort("bytes", "operator", "module", descending=[True, False, False], nulls_last=True)
        limit = _HELD
        blocks += excerpt("Allocated by", memory_at_peak, held, _HOLDERS, limit=limit, name="memory_at_peak")
    return blocks


SECTION = Section(title="Memory", order=95, group="memory", build=build)
