"""How busy and how full each device is, over time.

One row is a stretch of time on a device with kernels. A stretch is a power of ten long, at least 10 µs, so that there
are at most 100. The last one takes the rest. They cover the window of the profiler, where the trace marks it, and all
device work. Times are ns. Figures are of the recorded part of a stretch:

- utilization: share of it with a kernel, copies and sets not counted;
- sm_efficiency (estimated): mean of min(1, sum of blocks per SM of the kernels that run at that time);
- occupancy (estimated, achieved): mean of the kernels' estimates, weighted by their time in it; null without kernels.

The last two are null where no kernel carries what they need, as in traces of AMD and MTIA. All three are null where
nothing was recorded. Definitions: the counters that the TensorBoard plugin adds to its timeline, which draws SM
efficiency kernel by kernel and takes no occupancy.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.host_rows import host_where
from stepscope.analyses.lib.markers import unrecorded
from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE_ON_GPU, parts, shaped
from stepscope.core.errors import MissingData
from stepscope.core.intervals import Spans, overlap_each, spans, subtract, union
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column, polars_schema

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device"),
    Column("start", pl.Int64, "ns", "start of the stretch", "trace"),
    Column("end", pl.Int64, "ns", "end of the stretch", "trace"),
    Column("utilization", pl.Float64, "ratio", "share of it with a kernel"),
    Column("sm_efficiency", pl.Float64, "ratio", "estimated share of the SMs that have a block to run"),
    Column("occupancy", pl.Float64, "ratio", "estimated share of the warps that an SM can hold"),
)
_SHORTEST = 10_000  # ns: the plugin's; below it single kernels are all there is to see
_STRETCHES = 100  # at most, the plugin's
_WINDOW = r"^PyTorch Profiler \(\d+\)$"
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, device and start. Raises MissingData without kernels."""
    work = device_work(run, "blocks_per_sm", "occupancy")
    if not (work["kind"] == "kernel").any():
        raise MissingData("kernels", how=RECORD_TRACE_ON_GPU)
    windows = host_where(run, None, pl.col("name").str.contains(_WINDOW), "rank", "start", "end")
    rows = [pl.DataFrame(schema=polars_schema(COLUMNS))]
    for part in parts(work, "rank", "device"):
        kernels = part.filter(pl.col("kind") == "kernel")
        if kernels.height:
            edges = _edges(part, windows.filter(pl.col("rank") == part["rank"][0]))
            unknown = subtract(unrecorded(run, part["rank"][0]), union(spans(part)))
            figures = _figures(kernels, np.stack((edges[:-1], edges[1:]), axis=1), unknown)
            rows.append(shaped(part.select("rank", "device").head(1).join(figures, how="cross"), COLUMNS))
    return pl.concat(rows).sort("rank", "device", "start")


def _edges(work: pl.DataFrame, windows: pl.DataFrame) -> Ints:
    times = pl.concat([work.select("start", "end"), windows.select("start", "end")])
    first, last = times.select(first=pl.col("start").min(), last=pl.col("end").max()).row(0)
    size = _SHORTEST
    while last - first > _STRETCHES * size:
        size *= 10
    count = max((last - first) // size, 1)
    return np.concatenate((first + size * np.arange(count, dtype=np.int64), [last]))


def _figures(kernels: pl.DataFrame, stretches: Spans, unknown: Spans) -> pl.DataFrame:
    recorded = stretches[:, 1] - stretches[:, 0] - overlap_each(stretches, unknown)
    empty = np.full(len(stretches), np.nan)
    seen = recorded > 0
    busy = np.divide(overlap_each(stretches, spans(kernels)), recorded, out=empty.copy(), where=seen)
    full = np.divide(_blocks(kernels, stretches), recorded, out=empty.copy(), where=seen)
    known = kernels.filter(pl.col("occupancy") >= 0)
    time = _integral(known, np.ones(known.height), stretches)
    area = _integral(known, known["occupancy"].to_numpy(), stretches)
    occupancy = np.divide(area, time, out=empty.copy(), where=time > 0)
    figures = {"utilization": busy, "sm_efficiency": full, "occupancy": occupancy}
    return pl.DataFrame({"start": stretches[:, 0], "end": stretches[:, 1], **figures}).with_columns(
        pl.col(*figures).fill_nan(None)
    )


def _blocks(kernels: pl.DataFrame, stretches: Spans) -> Floats:
    """In each stretch, the integral over time of min(1, blocks per SM); NaN if no kernel carries blocks."""
    known = kernels.filter(pl.col("blocks_per_sm") > 0)
    if known.is_empty():
        return np.full(len(stretches), np.nan)
    return _integral(known, np.minimum(known["blocks_per_sm"].to_numpy(), 1.0), stretches, most=1.0)


def _integral(ranges: pl.DataFrame, weight: Floats, stretches: Spans, most: float = np.inf) -> Floats:
    """In each stretch, the integral over time of the weights of the ranges that run, together at most `most`."""
    times = np.concatenate((ranges["start"].to_numpy(), ranges["end"].to_numpy()))
    if not len(times):
        return np.zeros(len(stretches))
    order = np.argsort(times, kind="stable")
    times = times[order]
    level = np.clip(np.cumsum(np.concatenate((weight, -weight))[order])[:-1], 0, most)
    area = np.concatenate(([0.0], np.cumsum(level * np.diff(times))))
    # Times since the epoch exceed what a float holds exactly; times since the first one do not.
    at = np.interp(stretches - times[0], times - times[0], area)
    found: Floats = at[:, 1] - at[:, 0]
    return found


ANALYSIS = gpu_counters = Analysis(compute=compute, columns=COLUMNS, scope="rank")
