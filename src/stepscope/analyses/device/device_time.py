"""Time of each device, divided so that it adds up.

One row is a device of a rank, from the start of its first to the end of its last kernel, copy or set. Times are ns. A
kernel counts as communication if the trace names its collective, if an operator of communication started it, or by its
name (core/communication.json). Memory is copies and memsets. Compute is every other kernel. Times are lengths of
unions, so work in parallel counts once, and compute_busy + exposed_communication + exposed_memory + idle = span
exactly. Definition: TraceLens' GPU timeline (its sets to count copies too), with integer nanoseconds. Time between
traced windows is neither span nor idle, because nothing was recorded there.
"""

import numpy as np
import polars as pl

from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.markers import unrecorded
from stepscope.analyses.lib.result_tables import RANK, parts, table
from stepscope.core.intervals import Spans, spans, subtract, total, union
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device"),
    Column("first_start", pl.Int64, "ns", "start of the first work", "trace"),
    Column("last_end", pl.Int64, "ns", "end of the last work", "trace"),
    Column("span", pl.Int64, "ns", "last_end - first_start, without the time between traced windows"),
    Column("kernels", pl.Int64, "count", "kernels, communication included"),
    Column("memcpys", pl.Int64, "count", "copies"),
    Column("memsets", pl.Int64, "count", "sets"),
    Column("kernel_busy", pl.Int64, "ns", "time with a kernel"),
    Column("busy", pl.Int64, "ns", "time with any work"),
    Column("compute_busy", pl.Int64, "ns", "time with a kernel that does not communicate"),
    Column("communication_busy", pl.Int64, "ns", "time with a kernel that communicates"),
    Column("memory_busy", pl.Int64, "ns", "time with a copy or set"),
    Column("exposed_communication", pl.Int64, "ns", "time with communication and no compute"),
    Column("exposed_memory", pl.Int64, "ns", "time with copies or sets and neither compute nor communication"),
    Column("idle", pl.Int64, "ns", "time without any work"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows for all devices with work. Raises MissingData without device work."""
    devices = parts(device_work(run), "rank", "device")
    rows = [(*work.select("rank", "device").row(0), *_row(work, unrecorded(run, work["rank"][0]))) for work in devices]
    return table(rows, COLUMNS).sort("rank", "device")


def _row(work: pl.DataFrame, unknown: Spans) -> tuple[int, ...]:
    kinds, roles = work["kind"], work["role"]
    compute, communication, memory = (
        union(spans(work.filter(roles == role))) for role in ("compute", "communication", "memory")
    )
    kernels, everything = union(spans(work.filter(kinds == "kernel"))), union(spans(work))
    first, last = int(work["start"].min()), int(work["end"].max())  # type: ignore[arg-type]
    exposed_communication = total(subtract(communication, compute))
    exposed_memory = total(subtract(memory, kernels))
    recorded = subtract(np.array([[first, last]]), subtract(unknown, everything))
    span, idle = total(recorded), total(subtract(recorded, everything))
    assert total(compute) + exposed_communication + exposed_memory + idle == span
    counts = tuple(int((kinds == kind).sum()) for kind in ("kernel", "memcpy", "memset"))
    busy = tuple(total(part) for part in (kernels, everything, compute, communication, memory))
    return (first, last, span, *counts, *busy, exposed_communication, exposed_memory, idle)


LEADING = (
    "busy",
    "idle",
    "compute_busy",
    "communication_busy",
    "exposed_communication",
    "exposed_memory",
    "span",
    "kernels",
    "memory_busy",
)
ANALYSIS = device_time = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
