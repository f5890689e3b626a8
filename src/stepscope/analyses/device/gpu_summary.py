"""How well each device is used, by the TensorBoard plugin's four figures.

One row is a device with kernels. The window W runs from the first to the last step of step_breakdown, gaps included. Of
several traced windows, W is all, without the time between.

- utilization: length of the union of the kernels in W / length of W. Copies and sets do not count.
- sm_efficiency (estimated): over W, the mean of min(1, sum of blocks per SM of the kernels that run at that time).
- occupancy (estimated, achieved): mean of the kernels' estimates, weighted by their time inside W.
- tensor_core_share: of the time of kernels that an operator or annotation other than the step started, the part in
  kernels whose names tell of tensor or matrix cores; not limited to W.

The last three are null when no kernel carries what they need.
"""

import numpy as np
import polars as pl

from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.devices_used import device_facts
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE_ON_GPU, by_rank, parts, table
from stepscope.analyses.lib.tb_step_bounds import adjusted_steps
from stepscope.core.errors import MissingData
from stepscope.core.intervals import Spans, intersect, overlap_each, spans, total, union
from stepscope.core.kernels import name_test
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column
from stepscope.core.tensor_cores import uses_tensor_cores

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device"),
    Column("name", pl.String, None, "product name; null when the source leaves it blank"),
    Column("memory", pl.Int64, "bytes", "memory of the device"),
    Column("capability", pl.String, None, "compute capability, major.minor"),
    Column("window", pl.Int64, "ns", "length of the window"),
    Column("utilization", pl.Float64, "ratio", "share of the window with a kernel"),
    Column("sm_efficiency", pl.Float64, "ratio", "estimated share of the SMs that have a block to run"),
    Column("occupancy", pl.Float64, "ratio", "estimated share of the warps that an SM can hold"),
    Column("tensor_core_share", pl.Float64, "ratio", "share of kernel time in tensor or matrix core kernels"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows for all devices with kernels. Raises MissingData without kernels, or without steps and operators."""
    kernels = _kernels(run)
    if kernels.is_empty():
        raise MissingData("kernels", how=RECORD_TRACE_ON_GPU)
    edges = adjusted_steps(run).group_by("rank", "window").agg(pl.col("start").min(), pl.col("end").max())
    windows = {rank: union(spans(part)) for rank, part in by_rank(edges).items()}
    facts = {(rank, device): tuple(rest) for rank, device, *rest in device_facts(run).iter_rows()}
    rows = []
    for part in parts(kernels, "rank", "device"):
        rank, device = part["rank"][0], part["device"][0]
        if rank in windows:
            rows.append((rank, device, *facts.get((rank, device), (None, None, None)), *_figures(part, windows[rank])))
    return table(rows, COLUMNS).sort("rank", "device")


def _kernels(run: Run) -> pl.DataFrame:
    """Kernels with `tensor_cores` and `attributed`: an operator or annotation, not the step itself, started it."""
    found = launches(run)
    attributed = found.operator >= 0
    if found.tree is not None:
        attributed &= ~found.tree.steps[found.operator]
    work = device_work(run, "name", "blocks_per_sm", "occupancy").with_columns(attributed=pl.Series(attributed))
    work = work.filter(pl.col("kind") == "kernel")
    return work.with_columns(tensor_cores=name_test(work["name"], uses_tensor_cores))


def _figures(
    kernels: pl.DataFrame, windows: Spans
) -> tuple[int, float | None, float | None, float | None, float | None]:
    length = total(windows)
    utilization = total(intersect(spans(kernels), windows)) / length if length else None
    inside = kernels.with_columns(inside=pl.Series(overlap_each(spans(kernels), windows))).filter(pl.col("inside") > 0)
    return length, utilization, _sm_efficiency(inside, windows), _occupancy(inside), _tensor_core_share(kernels)


def _sm_efficiency(kernels: pl.DataFrame, windows: Spans) -> float | None:
    known = kernels.filter(pl.col("blocks_per_sm") > 0)
    if known.is_empty():
        return None
    # One kernel alone cannot exceed 1, so limiting each first changes no sum, and an infinite one stays a number.
    blocks = np.minimum(known["blocks_per_sm"].to_numpy(), 1.0)
    times = np.concatenate((known["start"].to_numpy(), known["end"].to_numpy()))
    order = np.argsort(times, kind="stable")
    times = times[order]
    active = np.clip(np.cumsum(np.concatenate((blocks, -blocks))[order])[:-1], 0, 1)
    inside = overlap_each(np.stack((times[:-1], times[1:]), axis=1), windows)
    return float((active * inside).sum() / total(windows))


def _occupancy(kernels: pl.DataFrame) -> float | None:
    known = kernels.filter(pl.col("occupancy") >= 0)
    if known.is_empty():
        return None
    return float(np.average(known["occupancy"].to_numpy(), weights=known["inside"].to_numpy()))


def _tensor_core_share(kernels: pl.DataFrame) -> float | None:
    attributed = kernels.filter("attributed")
    whole = total(spans(attributed))
    return total(spans(attributed.filter("tensor_cores"))) / whole if whole else None


LEADING = ("name", "utilization", "sm_efficiency", "occupancy", "tensor_core_share", "memory")
ANALYSIS = gpu_summary = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
