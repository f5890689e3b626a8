"""Time of accelerators whose work a trace records in another form than kernels: Meta's MTIA.

One row is a device of a rank, from the start of its first to the end of its last event. Times are ns. Requests named
`dma_request` move memory; every other event computes. Times are lengths of unions, so work in parallel counts once, and
compute_busy + exposed_memory + idle = span exactly. `jobs_launched` are those whose correlation id names a call of the
runtime. Collectives are not told apart: their events carry no names that say so. Definition as in device_time; the
kinds are those of Holistic Trace Analysis for MTIA.
"""

import numpy as np
import polars as pl

from stepscope.analyses.lib.device_work import ACCELERATOR, ACCELERATOR_COPY
from stepscope.analyses.lib.host_events import CALLS
from stepscope.analyses.lib.result_tables import RANK, parts, table
from stepscope.core.errors import MissingData
from stepscope.core.intervals import spans, subtract, total, union
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device"),
    Column("first_start", pl.Int64, "ns", "start of the first event", "trace"),
    Column("last_end", pl.Int64, "ns", "end of the last event", "trace"),
    Column("span", pl.Int64, "ns", "last_end - first_start"),
    Column("jobs", pl.Int64, "count", "events that compute"),
    Column("jobs_launched", pl.Int64, "count", "of these, with a call of the runtime that started them"),
    Column("copies", pl.Int64, "count", "requests that move memory"),
    Column("compute_busy", pl.Int64, "ns", "time that computes"),
    Column("memory_busy", pl.Int64, "ns", "time that moves memory"),
    Column("exposed_memory", pl.Int64, "ns", "time that moves memory and does not compute"),
    Column("idle", pl.Int64, "ns", "time with neither"),
)
_LAUNCH = ["rank", "pid", "correlation"]
_HOW = (
    "nothing if the job uses no MTIA, else `stepscope run --trace 10:13 -- COMMAND`; "
    "the time of other devices is in `stepscope show device_time`"
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and device. Raises MissingData without such events."""
    columns = ("rank", "pid", "device", "name", "start", "end", "correlation")
    work = run.where("device", pl.col("kind") == ACCELERATOR, *columns)
    if work.is_empty():
        raise MissingData("accelerator without kernels", how=_HOW)
    calls = run.optional("host", *_LAUNCH, "kind").filter(pl.col("kind").is_in(CALLS) & (pl.col("correlation") != 0))
    launched = work.select(_LAUNCH).join(
        calls.select(_LAUNCH).unique().with_columns(found=pl.lit(True)), on=_LAUNCH, how="left", maintain_order="left"
    )
    work = work.with_columns(launched=launched["found"].fill_null(False))
    return table([_row(part) for part in parts(work, "rank", "device")], COLUMNS).sort("rank", "device")


def _row(work: pl.DataFrame) -> tuple[object, ...]:
    copies = work["name"] == ACCELERATOR_COPY
    computing, moving = union(spans(work.filter(~copies))), union(spans(work.filter(copies)))
    first, last = int(work["start"].min()), int(work["end"].max())  # type: ignore[arg-type]
    idle = last - first - total(union(np.concatenate((computing, moving))))
    exposed = total(subtract(moving, computing))
    assert total(computing) + exposed + idle == last - first
    counts = (int((~copies).sum()), int((work["launched"] & ~copies).sum()), int(copies.sum()))
    times = (total(computing), total(moving), exposed, idle)
    return (*work.select("rank", "device").row(0), first, last, last - first, *counts, *times)


LEADING = ("device", "span", "jobs", "copies", "compute_busy", "memory_busy", "idle", "exposed_memory")
ANALYSIS = other_devices = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
