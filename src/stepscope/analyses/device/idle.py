"""Idle time of each device by cause, with what the host did meanwhile.

One row is a cause on a device; the causes are those of `idle_gaps`, and their totals add up to `device_time.idle`
exactly. Times are ns. `gaps` counts the gaps that hold any time of the cause. `activity` is what the host did for most
of that time, and `line` the user's line that it was on. Each comes with its part of the time. Both are taken from gaps
of which the cause is the largest part; of `launch`, the activity is the launching call of each gap. They are null for
causes behind the launch, where the host is ahead. Only causes that occur have a row.
"""

import polars as pl

from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.device.idle_gaps import idle_gaps
from stepscope.analyses.device.lib.device_gaps import BEFORE_LAUNCH, CAUSES
from stepscope.analyses.lib.result_tables import RANK, quotient, shaped
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device"),
    Column("class", pl.String, None, "why the device had no work, as in idle_gaps"),
    Column("gaps", pl.Int64, "count", "gaps with any time of this cause"),
    Column("total", pl.Int64, "ns", "idle time of this cause"),
    Column("share", pl.Float64, "ratio", "total as a share of the device's span"),
    Column("longest", pl.Int64, "ns", "longest time of this cause in one gap"),
    Column("activity", pl.String, None, "what the host did most; null: not recorded, or not the host's doing"),
    Column("activity_total", pl.Int64, "ns", "idle time of this cause during that"),
    Column("file", pl.String, None, "file of the user's code that the host was in most; null: as above"),
    Column("line", pl.Int64, None, "line in it"),
    Column("function", pl.String, None, "function of that line"),
    Column("line_total", pl.Int64, "ns", "idle time of this cause on that line"),
)
_DEVICE = ("rank", "device")
_DOING = ("class", "activity", "file", "line", "function")
_OF_THE_HOST = (*BEFORE_LAUNCH, "launch")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and device, the largest cause first. Raises MissingData without device work."""
    gaps = idle_gaps(run)
    devices = device_time(run).select(*_DEVICE, "span", "idle")
    occurring = [cause for cause in CAUSES if gaps[cause].sum()] or CAUSES[:1]
    rows = pl.concat([_of_cause(gaps, cause) for cause in occurring])
    rows = rows.join(devices, on=_DEVICE, how="left", nulls_equal=True)
    found = rows.group_by(_DEVICE).agg(pl.col("total").sum())
    sums = devices.join(found, on=_DEVICE, how="left", nulls_equal=True)
    assert sums.select((pl.col("total").fill_null(0) == pl.col("idle")).all()).item()
    rows = rows.with_columns(share=quotient(pl.col("total"), pl.col("span")))
    return shaped(rows.sort(*_DEVICE, "total", "class", descending=[False, False, True, False]), COLUMNS)


def _of_cause(gaps: pl.DataFrame, cause: str) -> pl.DataFrame:
    time = pl.col(cause)
    found = gaps.select(*_DEVICE, cause).filter(time > 0)
    sums = found.group_by(_DEVICE).agg(gaps=pl.len(), total=time.sum(), longest=time.max())
    sums = sums.with_columns(pl.lit(cause).alias("class"))
    watched = gaps.select(*_DEVICE, cause, *_DOING)
    watched = watched.filter((pl.col("class") == cause) & (time > 0)) if cause in _OF_THE_HOST else watched.clear()
    # During a launch the host is in that call, however small a part of the gap it is.
    doing = gaps.filter(time > 0).with_columns(activity="call") if cause == "launch" else watched
    for table, names, of_names in (
        (doing, ("activity",), "activity_total"), (watched, ("file", "line", "function"), "line_total"),
    ):  # fmt: skip
        sums = sums.join(_most(table, names, cause, of_names), on=_DEVICE, how="left", nulls_equal=True)
    return sums


def _most(gaps: pl.DataFrame, names: tuple[str, ...], cause: str, total: str) -> pl.DataFrame:
    """For each device what the most time of a cause has in these columns, of what is known, and that time."""
    known = gaps.filter(pl.col(names[0]).is_not_null())
    sums = known.group_by(*_DEVICE, *names).agg(pl.col(cause).sum().alias(total))
    sums = sums.sort(total, *names, descending=[True, *(False for _ in names)], nulls_last=True)
    return sums.unique(_DEVICE, keep="first", maintain_order=True)


LEADING = ("class", "gaps", "total", "share", "longest", "activity", "file", "line", "line_total", "function")
ANALYSIS = idle = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
