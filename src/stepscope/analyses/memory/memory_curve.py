"""Allocated and reserved memory of each device over time, thinned out for drawing.

One row is a moment just after an allocation or a free. Times are ns. `allocated` is what tensors hold, in blocks that
the allocator rounds up; in snapshots, the requested size. `reserved` is what the allocator holds of the device. Both
are null where the source does not give them; `change` is always there: what was allocated less what was freed since the
recording of the device began. The totals of the CPU hold what the profiler has seen, and the CPU has no pool.

The time of a device is cut into 500 equal parts. Each part keeps its first and last moment, and the highest and lowest
of allocated (or else change) and reserved. So no peak is lost, and a line through the rows looks like one through all
moments. All moments: `stepscope show memory PATH`. Definition: the memory curve of the TensorBoard plugin, whose
largest-triangle thinning may drop the peak.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import shaped
from stepscope.analyses.memory.lib.memory_events import DEVICE_COLUMNS, memory_events, named_device
from stepscope.analyses.memory.lib.memory_phases import event_phases
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    *DEVICE_COLUMNS,
    Column("time", pl.Int64, "ns", "time of the event", "trace"),
    Column("step", pl.Int64, None, "number of the step; null: outside of steps"),
    Column("phase", pl.String, None, "phase of the step, or what the operators around the event tell; null: unknown"),
    Column("change", pl.Int64, "bytes", "allocated less freed since the recording of the device began"),
    Column("allocated", pl.Int64, "bytes", "allocated after the event; null: not recorded"),
    Column("reserved", pl.Int64, "bytes", "held by the allocator after the event; null: not recorded, or no pool"),
    Column("capacity", pl.Int64, "bytes", "memory of the device; null: not recorded"),
)
PARTS = 500  # of the time of a device: a screen has two to four times as many columns of pixels


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, device and time. Raises MissingData without memory events."""
    events = memory_events(run)
    kept = _thinned(events)
    rows = events[kept["row"]].hstack(event_phases(run).of_event[kept["row"]].select("step", "phase"))
    capacity = run.optional("devices", "rank", "device", "memory").unique(("rank", "device"), keep="first")
    # The numbers of devices are those of accelerators; the CPU has the number -1.
    rows = rows.join(capacity, on=("rank", "device"), how="left", maintain_order="left")
    allocated = pl.when(pl.col("total")).then(pl.col("total_allocated"))
    rows = rows.with_columns(allocated=allocated, reserved="total_reserved", capacity="memory")
    return shaped(rows.sort("row").with_columns(named_device()), COLUMNS)


def _thinned(events: pl.DataFrame) -> pl.DataFrame:
    """The rows of the curve, in order."""
    start, end = pl.col("time").min().over("key"), pl.col("time").max().over("key")
    part = (pl.col("time") - start) * PARTS // (end - start + 1)
    by_part = events.select("key", "row", "level", "total_reserved", part=part).group_by("key", "part")
    ends = by_part.agg(
        pl.col("row").first().alias("first"),
        pl.col("row").last().alias("last"),
        *(
            pl.col("row").get(arg, null_on_oob=True).alias(name)
            for name, arg in (
                ("highest", pl.col("level").arg_max()),
                ("lowest", pl.col("level").arg_min()),
                ("most", pl.col("total_reserved").arg_max()),
                ("least", pl.col("total_reserved").arg_min()),
            )
        ),
    )
    rows = ends.unpivot(on=["first", "last", "highest", "lowest", "most", "least"], value_name="row")
    return rows.select("row").drop_nulls().unique().sort("row")


LEADING = ("time", "step", "phase", "device_type", "allocated", "reserved", "change", "capacity")
ANALYSIS = memory_curve = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
