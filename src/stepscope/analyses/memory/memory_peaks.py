"""How full the memory of each device became, when, and whether it grows from step to step.

One row is a device of a rank. Times are ns. `allocated` is the peak of what tensors hold, first reached just after the
event at `time`. If the peak was at the beginning, `time` is that of the first event. `reserved` is the peak of what the
allocator holds. `unused` is reserved less allocated at the peak of allocated: memory that the allocator could not use
for it, cached or lost to fragmentation. Shares are of the memory of the device. `rise` is the peak above what was there
when the recording began; it is known also where the source gives no totals.

`growth` is bytes per step: the median slope between the levels at the ends of all pairs of steps (Theil and Sen). So
one odd step does not count. Above zero where memory leaks, zero in steady training; null with fewer than three steps.
Definition of the peak: the memory view of the TensorBoard plugin.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.markers import step_markers
from stepscope.analyses.lib.result_tables import quotient, shaped
from stepscope.analyses.memory.lib.lifetimes import lives, unmatched_frees
from stepscope.analyses.memory.lib.memory_events import DEVICE_COLUMNS, memory_events, named_device
from stepscope.analyses.memory.lib.memory_phases import event_phases
from stepscope.analyses.memory.lib.peak import peaks
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    *DEVICE_COLUMNS,
    Column("allocated", pl.Int64, "bytes", "peak of allocated memory; null: totals were not recorded"),
    Column("time", pl.Int64, "ns", "when it was first reached", "trace"),
    Column("step", pl.Int64, None, "step of that time; null: outside of steps"),
    Column("phase", pl.String, None, "phase of that time; null: unknown"),
    Column("rise", pl.Int64, "bytes", "peak less what was allocated when the recording began"),
    Column("reserved", pl.Int64, "bytes", "peak of reserved memory; null: not recorded, or no pool"),
    Column("unused", pl.Int64, "bytes", "reserved less allocated at the peak of allocated"),
    Column("capacity", pl.Int64, "bytes", "memory of the device; null: not recorded"),
    Column("share", pl.Float64, "ratio", "peak of allocated as share of the capacity"),
    Column("reserved_share", pl.Float64, "ratio", "peak of reserved as share of the capacity"),
    Column("growth", pl.Float64, "bytes", "growth per step; null: fewer than three steps"),
    Column("steps", pl.Int64, "count", "steps that the growth is from"),
    Column("before", pl.Int64, "bytes", "allocated when the recording began; null: totals were not recorded"),
    Column("allocations", pl.Int64, "count", "allocations recorded"),
    Column("frees", pl.Int64, "count", "frees recorded"),
    Column("unmatched_frees", pl.Int64, "count", "frees of blocks whose allocation was not recorded"),
    Column("alive", pl.Int64, "count", "recorded blocks that were not freed until the end"),
    Column("out_of_memory", pl.Int64, "count", "times that the allocator gave up; null: not of the CPU"),
)
MIN_STEPS = 3  # two steps make one slope, which any block that is freed a moment later would bend
MOST_STEPS = 400  # slopes of all pairs: 80 000 of them take a millisecond or two
OUT_OF_MEMORY = "[OutOfMemory]"
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and device. Raises MissingData without memory events."""
    events = memory_events(run)
    rows = peaks(run)
    phases = event_phases(run).of_event
    at = events[pl.select(pl.max_horizontal(rows["peak_row"], rows["first"])).to_series()]
    place = phases[at["row"]].select("step", "phase")
    rows = rows.hstack(place).with_columns(at["total"], here=at["total_reserved"])
    growths = [_growth(run, part) for part in events.partition_by("key", maintain_order=True)]
    rows = rows.with_columns(
        growth=pl.Series([growth for growth, _ in growths], dtype=pl.Float64),
        steps=pl.Series([steps for _, steps in growths], dtype=pl.Int64),
    )
    for more in (_reserved(events), _counts(run, events)):
        rows = rows.join(more, on="key", how="left", maintain_order="left")
    rows = _with_job(run, rows)
    known = pl.when(pl.col("total"))
    rows = rows.with_columns(
        allocated=known.then("peak"),
        rise=pl.col("peak") - pl.coalesce("before", pl.lit(0)),
        unused=known.then(pl.col("here") - pl.col("peak")),
        share=known.then(quotient(pl.col("peak"), pl.col("capacity"))),
        reserved_share=quotient(pl.col("reserved"), pl.col("capacity")),
    )
    return shaped(rows.with_columns(named_device()), COLUMNS)


def _reserved(events: pl.DataFrame) -> pl.DataFrame:
    known = events.drop_nulls("total_reserved")
    return known.group_by("key").agg(reserved=pl.col("total_reserved").max())


def _counts(run: Run, events: pl.DataFrame) -> pl.DataFrame:
    """Per device: allocations, frees, unmatched_frees, alive."""
    counts = events.group_by("key").agg(
        allocations=(pl.col("bytes") > 0).sum(),
        frees=(pl.col("bytes") < 0).sum(),
        paired=pl.col("address").is_not_null().any(),
    )
    alive = lives(run).filter(pl.col("freed").is_null() & pl.col("again").is_null()).group_by("key").agg(alive=pl.len())
    unmatched = unmatched_frees(run).group_by("key").agg(unmatched_frees=pl.len())
    counts = counts.join(alive, on="key", how="left").join(unmatched, on="key", how="left")
    # Without addresses nothing is paired, and nothing is known of what is alive.
    return counts.with_columns(pl.when("paired").then(pl.col("alive", "unmatched_frees").fill_null(0))).drop("paired")


def _with_job(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """With capacity, and with how often a rank's allocator gave up, which the profiler marks without a device."""
    devices = run.optional("devices", "rank", "device", "memory").unique(("rank", "device"), keep="first")
    rows = rows.join(devices.rename({"memory": "capacity"}), on=("rank", "device"), how="left", maintain_order="left")
    gave_up = (
        run.where("instants", pl.col("name") == OUT_OF_MEMORY, "rank").group_by("rank").agg(out_of_memory=pl.len())
    )
    rows = rows.join(gave_up, on="rank", how="left", maintain_order="left")
    on_device = pl.col("device_type").ne_missing(0)
    return rows.with_columns(out_of_memory=pl.when(on_device).then(pl.col("out_of_memory").fill_null(0)))


def _growth(run: Run, events: pl.DataFrame) -> tuple[float | None, int]:
    """Growth per step of one device, and the number of steps it is from."""
    markers = step_markers(run).filter(pl.col("rank") == events["rank"][0]).unique("step", keep="last")
    markers = markers.sort("step")
    if markers.height < MIN_STEPS:
        return None, markers.height
    markers = markers.gather_every(-(-markers.height // MOST_STEPS))
    last = np.searchsorted(events["time"].to_numpy(), markers["end"].to_numpy(), side="right") - 1
    before = (events["level"] - events["bytes"]).head(1).to_numpy()
    levels = np.concatenate((before, events["level"].to_numpy())).astype(np.float64)[last + 1]
    known = ~np.isnan(levels)  # of a damaged trace a level may be lost
    if known.sum() < MIN_STEPS:
        return None, int(known.sum())
    return _median_slope(markers["step"].to_numpy()[known], levels[known]), int(known.sum())


def _median_slope(steps: Ints, levels: Floats) -> float:
    first, second = np.triu_indices(len(steps), k=1)
    return float(np.median((levels[second] - levels[first]) / (steps[second] - steps[first])))


LEADING = (
    "device_type",
    "device",
    "allocated",
    "reserved",
    "capacity",
    "share",
    "step",
    "phase",
    "growth",
    "unused",
    "reserved_share",
    "out_of_memory",
)
ANALYSIS = memory_peaks = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
