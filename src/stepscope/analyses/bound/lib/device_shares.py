"""Where the time of a rank's device goes in an average step, with the idle part divided by what the host did.

The shares come from the traced steps; a rank without steps in its trace counts as one step as long as its device's
span. Idle time falls to the data wait where the host was inside the loader's next(), to blocking calls where it starts
inside such a call or right after one, to allocations where the host takes memory from the driver or gives it back
meanwhile, and to the host for the rest. Idle time after a launch that no work in the trace explains stays unexplained.

A profiler slows the host down and hardly the device. Where untraced steps were timed, the idle time of a step is
their mean less the time the device worked; the trace only divides it. Elsewhere `recording` is the idle time that is
there because the host was recorded, as far as the trace tells.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.device.lib.device_gaps import device_gaps
from stepscope.analyses.device.lib.recording_idle import recording_idle
from stepscope.analyses.host.blocking_syncs import blocking_syncs
from stepscope.analyses.lib.cut_traces import AGAIN, NO_WHOLE_STEP, cuts, without_whole_step
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.markers import data_waits
from stepscope.analyses.lib.result_tables import RECORD_TRACE_ON_GPU
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.analyses.lib.trace_phases import traced_steps
from stepscope.analyses.memory.device_allocations import device_allocations
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.intervals import Spans, intersect, spans, subtract, total, union
from stepscope.core.run import Analysis, Run, chain

__all__ = ["SHORTEST", "DeviceIdle", "device_idle", "idle_by_rank", "inflated_by"]

SHORTEST = 1_000_000
"""ns: in less than a millisecond a single launch decides about all shares."""

_NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceIdle:
    """An average step of the busiest device of a rank: busy + input + sync + allocation + host + unexplained = step.

    In ns. `compute`, `communication` and `memory` are the parts of busy, the last two only where exposed. `unexplained`
    is idle time after a launch for which the trace shows no reason. `window` is the time that was watched, `steps` the
    number of steps in it, 1 for a trace without steps. `wait_exposed` is the share of the data wait that leaves the
    device without work, None if the trace shows no wait. `recording` is the part of sync, allocation and host that
    would be gone without the profiler, `slowed_by` what of it is optional. So many `kernels` start in a step.
    """

    rank: int
    device: int
    step: float
    compute: float
    communication: float
    memory: float
    input: float
    sync: float
    allocation: float
    host: float
    unexplained: float
    recording: float
    slowed_by: tuple[str, ...]
    wait_exposed: float | None
    window: Spans
    steps: int
    kernels: float

    def per_step(self, moments: npt.NDArray[np.int64]) -> float:
        """How many of these moments (ns) are in a step on average."""
        return _inside(moments, self.window) / self.steps

    @property
    def utilization(self) -> float:
        """Share of the step in which the device computes, communicates or copies."""
        return (self.compute + self.communication + self.memory) / self.step if self.step else 0.0


def device_idle(run: Run) -> tuple[DeviceIdle, ...]:
    """One row for each rank with device work, by rank. Raises MissingData without device work."""
    return run.per_rank(_device_idle, chain)


def idle_by_rank(run: Run) -> dict[int, DeviceIdle]:
    """The same rows by rank; none where no GPU computes, or no trace tells of it."""
    if not has_gpu(run):
        return {}
    try:
        return {row.rank: row for row in device_idle(run)}
    except MissingData:
        return {}


def _device_idle(run: Run) -> tuple[DeviceIdle, ...]:
    cut = without_whole_step(run)
    if cut and cut.issuperset(device_time(run)["rank"]):
        raise MissingData(NO_WHOLE_STEP, how=AGAIN)
    whole = (pl.col("span") > 0) & ~pl.col("rank").is_in(cut)
    table = device_time(run).filter(whole).sort("busy", "device", descending=[True, False])
    busiest = table.unique("rank", keep="first", maintain_order=True).sort("rank")
    rows = tuple(row for found in busiest.iter_rows(named=True) if (row := _of_rank(run, found)) is not None)
    if not rows:
        raise MissingData("a millisecond of device work", how=RECORD_TRACE_ON_GPU)
    return rows


def _of_rank(run: Run, row: dict[str, int]) -> DeviceIdle | None:
    rank = row["rank"]
    work = device_work(run).filter((pl.col("rank") == rank) & pl.col("device").eq_missing(row["device"]))
    window, count = _window(run, row)
    if total(window) < SHORTEST:
        return None
    parts = _parts(work, window)
    waits = intersect(window, spans(data_waits(run).filter(pl.col("rank") == rank)))
    waiting = total(intersect(parts["idle"], waits))
    idle = total(parts["idle"])
    blocked = min(_lost(run, rank, blocking_syncs, "bubble"), idle - waiting)
    allocating = min(_lost(run, rank, device_allocations, "stalled"), idle - waiting - blocked)
    unexplained = min(_unexplained(run, row, window), idle - waiting - blocked - allocating)
    busy = (total(window) - idle) / count
    untraced = _untraced_step(run, rank)
    step = max(untraced or total(window) / count, busy)
    of_idle = (step - busy) / idle if idle else 0.0  # the idle time of a step that nobody watched, divided alike
    recorded = recording_idle(run, rank, row["device"], window) if untraced is None else 0.0
    return DeviceIdle(
        rank=rank,
        device=row["device"],
        step=step,
        compute=total(parts["compute"]) / count,
        communication=total(parts["communication"]) / count,
        memory=total(parts["memory"]) / count,
        input=waiting * of_idle,
        sync=blocked * of_idle,
        allocation=allocating * of_idle,
        host=(idle - waiting - blocked - allocating - unexplained) * of_idle,
        unexplained=unexplained * of_idle,
        recording=recorded * (idle - waiting - unexplained) / count,
        slowed_by=() if untraced is not None else inflated_by(run, rank),
        wait_exposed=waiting / total(waits) if total(waits) else None,
        window=window,
        steps=count,
        kernels=_inside(work.filter(pl.col("kind") == "kernel")["start"].to_numpy(), window) / count,
    )


def _window(run: Run, row: dict[str, int]) -> tuple[Spans, int]:
    """Time that the trace watched, and the steps in it: each run of consecutive steps, with the device's work after it.

    A device lags behind the host that launches ahead, so what it still does after the last step belongs to the steps.
    A profiler that stops marks the beginning of one more step, in which no operator runs: that is none.
    """
    traced = [step for step in traced_steps(run) if step.rank == row["rank"]]
    if len(traced) > 1 and not traced[-1].operators and traced[-2].operators:
        traced = traced[:-1]
    first = [step for at, step in enumerate(traced) if at == 0 or step.step != traced[at - 1].step + 1]
    if not traced or row["last_end"] <= traced[0].start:
        return np.array([[row["first_start"], row["last_end"]]], dtype=np.int64), 1
    starts = sorted({step.start for step in first})
    lasts = [
        max(step.end for step in traced if start <= step.start < until) for start, until in pairwise([*starts, _NEVER])
    ]
    broken = min((cut.cut_from for cut in cuts(run) if cut.rank == row["rank"]), default=_NEVER)
    ends = [*lasts[:-1], max(lasts[-1], min(row["last_end"], broken))]
    return union(np.array(list(zip(starts, ends, strict=True)), dtype=np.int64)), len(traced)


def _inside(moments: npt.NDArray[np.int64], window: Spans) -> int:
    return sum(int(((moments >= start) & (moments < end)).sum()) for start, end in window.tolist())


def _parts(work: pl.DataFrame, window: Spans) -> dict[str, Spans]:
    """Disjoint sets of time in the window: computing, exposed communication, exposed copies and sets, idle."""
    compute, communication, memory = (
        intersect(window, spans(work.filter(pl.col("role") == role))) for role in ("compute", "communication", "memory")
    )
    kernels = union(np.concatenate((compute, communication)))
    busy = union(np.concatenate((kernels, memory)))
    return {
        "compute": compute,
        "communication": subtract(communication, compute),
        "memory": subtract(memory, kernels),
        "idle": subtract(window, busy),
    }


def _lost(run: Run, rank: int, analysis: Analysis, column: str) -> int:
    """Idle time in ns of a rank's device that an analysis lays at the door of calls."""
    try:
        calls = analysis(run)
    except MissingData:
        return 0  # a device trace without host events: nothing can be laid at a call's door
    return int(calls.filter(pl.col("rank") == rank)[column].sum())


def _unexplained(run: Run, row: dict[str, int], window: Spans) -> int:
    """Idle time in ns of a device, in gaps that begin in the window, after launches that the trace does not explain."""
    own = (pl.col("rank") == row["rank"]) & pl.col("device").eq_missing(row["device"])
    gaps = device_gaps(run).filter(own & (pl.col("unexplained") > 0))
    return sum(
        int(gaps.filter(pl.col("start").is_between(start, end))["unexplained"].sum()) for start, end in window.tolist()
    )


def _untraced_step(run: Run, rank: int) -> float | None:
    """Mean duration in ns of the steady steps of a rank that were not traced, None where there is none."""
    try:
        steady = steady_steps(run).filter((pl.col("rank") == rank) & ~pl.col("tags").list.contains("traced"))
    except MissingData:
        return None
    mean = steady["duration"].mean()
    return float(mean) if isinstance(mean, int | float) and mean > 0 else None


def inflated_by(run: Run, rank: int) -> tuple[str, ...]:
    """What the trace of a rank holds that slows the host more than need be, of stacks, shapes and memory."""
    frames, known = pl.col("kind") == "python", pl.all().is_not_null()
    places = (
        ("stacks", "host", "kind", frames), ("stacks", "host", "call_stack", known),
        ("shapes", "host", "input_dims", known), ("memory", "memory", "bytes", known),
    )  # fmt: skip
    told = []
    for what, table, column, test in places:
        own = run.optional(table, "rank", column).filter(pl.col("rank") == rank).select(column)
        if what not in told and own.select(test.any()).item():
            told.append(what)
    return tuple(told)
