"""How full the memory of each device became, against what it holds, what lived there then, and whether it grows."""

import polars as pl

from stepscope.analyses.memory_at_peak import memory_at_peak
from stepscope.analyses.memory_peaks import memory_peaks
from stepscope.core.report import Block, Section, Table
from stepscope.core.run import Run
from stepscope.sections import RANKS_SHOWN, Columns, excerpt

__all__ = ["SECTION"]

_PEAKS = {
    "rank": "rank", "device_type": "memory of", "device": "device", "allocated": "peak allocated", "reserved":
    "peak reserved", "capacity": "capacity", "share": "share", "unused": "unused at peak", "growth":
    "median growth per step",
}  # fmt: skip
_HOLDERS = {"operator": "operator", "module": "module", "bytes": "bytes", "share": "share", "blocks": "blocks"}
_HELD = 5  # rows of what fills a peak: the rest is seldom worth a change


def build(run: Run) -> list[Block]:
    if not run.rows("memory"):
        return []  # few runs record it: `stepscope show memory_peaks` says how
    peaks = memory_peaks(run)
    blocks = excerpt("Peaks", memory_peaks, peaks, _PEAKS, limit=RANKS_SHOWN, name="memory_peaks")
    return [*blocks, *_fullest(run, peaks)]


def _fullest(run: Run, peaks: pl.DataFrame) -> list[Block]:
    """What lives at the peak of the fullest device; an accelerator rather than the CPU, which seldom runs out."""
    level = pl.coalesce("allocated", "rise")
    order = peaks.with_columns(on_cpu=pl.col("device_type").eq_missing("CPU"), level=level)
    order = order.sort("on_cpu", "share", "level", descending=[False, True, True], nulls_last=True)
    device = order.select("rank", "device_type", "device").head(1)
    keys = ["rank", "device_type", "device"]
    rows = memory_at_peak(run).join(device, on=keys, how="semi", nulls_equal=True)
    if rows.is_empty():
        return []
    blocks: list[Block] = [_by_category(rows)]
    named = rows.filter(pl.any_horizontal(pl.col("operator", "module").is_not_null()))
    if named.height:
        held = named.group_by("operator", "module").agg(pl.col("bytes", "share", "blocks").sum())
        held = held.sort("bytes", "operator", "module", descending=[True, False, False], nulls_last=True)
        limit = _HELD
        blocks += excerpt("Who allocated it", memory_at_peak, held, _HOLDERS, limit=limit, name="memory_at_peak")
    return blocks


def _by_category(rows: pl.DataFrame) -> Table:
    sums = rows.group_by("category").agg(pl.col("bytes", "share").sum())
    sums = sums.sort("bytes", "category", descending=[True, False])
    columns: Columns = (("category", None), ("bytes", "bytes"), ("share", "ratio"))
    rank, kind, device = rows.select("rank", "device_type", "device").row(0)
    place = " ".join(str(part) for part in (kind, device) if part is not None)
    title = f"What lives at the peak of {place or 'the device'}, rank {rank}"
    return Table(title, columns, tuple(sums.iter_rows()))


SECTION = Section(title="Memory", order=95, group="memory", build=build)
