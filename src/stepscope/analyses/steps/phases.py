"""Paddle's model summary: the phases of a step on the host and on the device.

One row is a phase of a rank: Dataloader, Forward, Backward, Optimization, Others. Times are ns. Host figures (cpu_*)
are over steady steps: `calls` steps, their sum, mean, longest and shortest time in the phase, and cpu_ratio its share
of all step time. Device figures (gpu_*) are over the traced steps. They are the union of the device work that calls
inside the phase started, on any thread. gpu_ratio is its share of the five phases. They are null without device work.
In Paddle gpu times are sums, in which work in parallel counts twice.
"""

import numpy as np
import polars as pl

from stepscope.analyses.lib.launch_calls import Launches, launches
from stepscope.analyses.lib.result_tables import RANK, by_rank, table
from stepscope.analyses.lib.trace_phases import PHASES, TracedStep, traced_steps
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.analyses.steps.steps import weight_of
from stepscope.core.errors import MissingData
from stepscope.core.intervals import Spans, spans, total, union
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

_FIGURES = ("total", "avg", "max", "min", "ratio")
NAMES = ("Dataloader", "Forward", "Backward", "Optimization", "Others")


def _columns(where: str, of: str) -> tuple[Column, ...]:
    return (
        Column(f"{where}_total", pl.Int64, "ns", f"sum over {of}"),
        Column(f"{where}_avg", pl.Float64, "ns", f"mean of {of}"),
        Column(f"{where}_max", pl.Int64, "ns", f"longest of {of}"),
        Column(f"{where}_min", pl.Int64, "ns", f"shortest of {of}"),
    )


COLUMNS = (
    RANK,
    Column("phase", pl.String, None, "Dataloader, Forward, Backward, Optimization or Others"),
    Column("calls", pl.Int64, "count", "steady steps in which the phase was observed"),
    *_columns("cpu", "steady steps"),
    Column("cpu_ratio", pl.Float64, "ratio", "share of the time of the steady steps"),
    *_columns("gpu", "traced steps"),
    Column("gpu_ratio", pl.Float64, "ratio", "share of the device time of all phases"),
)


def compute(run: Run) -> pl.DataFrame:
    """Five rows per rank. Raises MissingData without steady steps."""
    device = _device_times(run)
    rows: list[tuple[object, ...]] = []
    for rank, part in by_rank(steady_steps(run)).items():
        on_device = device.get(rank, {})
        device_whole = sum(sum(times) for times in on_device.values())
        for name, phase in zip(NAMES, PHASES, strict=True):
            seen = part.select(phase, "weight").drop_nulls()
            host, weight = seen[phase].to_numpy(), weight_of(part)
            cpu = _figures(host, int(part["duration"].sum()), weight)
            known = on_device.get(phase, []) if len(host) or phase == "data_wait" else []
            rows.append((rank, name, len(host) * weight, *cpu, *_figures(np.array(known), device_whole)))
    return table(rows, COLUMNS)


def _figures(times: np.typing.NDArray[np.int64], whole: int, weight: int = 1) -> tuple[int | float | None, ...]:
    if not len(times):
        return (None,) * len(_FIGURES)
    summed = int(times.sum())
    return summed * weight, float(times.mean()), int(times.max()), int(times.min()), summed / whole if whole else None


def _device_times(run: Run) -> dict[int, dict[str, list[int]]]:
    """For each rank with device work and each phase, the device time of each traced step but empty ones."""
    try:
        found = launches(run)
    except MissingData:
        return {}
    by_rank = _launched(found)
    result: dict[int, dict[str, list[int]]] = {}
    traced = traced_steps(run)
    busy = {step.rank for step in traced if step.operators}
    for step in traced:
        if step.rank in by_rank and (step.operators or step.rank not in busy):
            calls, work = by_rank[step.rank]
            phases = result.setdefault(step.rank, {phase: [] for phase in PHASES})
            for phase, time in _of_step(step, calls, work).items():
                phases[phase].append(time)
    return result


def _launched(found: Launches) -> dict[int, tuple[np.typing.NDArray[np.int64], Spans]]:
    """For each rank, the start of the launch of each device work in order, and the spans of the work."""
    if found.tree is None:
        return {}
    known = np.nonzero(found.call >= 0)[0]
    starts = found.tree.frame["start"].to_numpy()[found.call[known]]
    work = found.work[known].select("rank", "start", "end").with_columns(launched=pl.Series(starts)).sort("launched")
    return {rank: (part["launched"].to_numpy(), spans(part)) for rank, part in by_rank(work).items()}


def _of_step(step: TracedStep, calls: np.typing.NDArray[np.int64], work: Spans) -> dict[str, int]:
    times = {}
    for phase, parts in step.phases.items():
        edges = np.searchsorted(calls, parts)
        chosen = [work[first:last] for first, last in edges.tolist()]
        times[phase] = total(union(np.concatenate(chosen))) if chosen else 0
    return times


LEADING = ("phase", "calls", "cpu_total", "cpu_ratio", "gpu_total", "gpu_ratio", "cpu_avg", "gpu_avg")
ANALYSIS = phases = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
