"""Where the time of traced steps went, in parts that add up: of the host and the device together, and of the device.

Sums are ns over all ranks of a run; they are divided when it is known what the other run can be compared by.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.lib.markers import step_markers
from stepscope.analyses.steps.step_breakdown import step_breakdown
from stepscope.compare.series import Division, divided
from stepscope.core.errors import MissingData
from stepscope.core.run import Run, stack

__all__ = ["Totals", "breakdown_of", "device_of", "steps_of_ranks"]

_DEVICE = {
    "compute_busy": "compute",
    "exposed_communication": "exposed communication",
    "exposed_memory": "exposed copies and memsets",
    "idle": "idle",
}
_BREAKDOWN = {
    "kernel": "kernels", "memcpy": "copies", "memset": "memsets", "communication": "communication", "runtime":
    "runtime calls", "dataloader": "data loader", "cpu_exec": "operators on the CPU", "other": "other",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Parts of a whole in ns. `steps` is the number of traced steps that they are of, 0 where none is marked.

    `lanes` is the number of ranks or devices that they are summed over.
    """

    whole: int
    parts: Mapping[str, int]
    steps: int
    lanes: int

    def per(self, *, step: bool) -> Division:
        """The mean step, or the mean of what was recorded of a rank or device."""
        count = self.steps if step else self.lanes
        return divided(self.whole / count, {name: part / count for name, part in self.parts.items()})


def steps_of_ranks(run: Run) -> pl.DataFrame:
    """The number of traced steps of each rank that marks any: rank, steps."""
    return run.per_rank(_steps_of_ranks, stack)


def device_of(run: Run) -> Totals | None:
    """Time of the devices; None where nothing ran on one."""
    try:
        table = device_time(run)
    except MissingData:
        return None
    steps = table.select("rank").join(steps_of_ranks(run), on="rank", how="left")["steps"]
    return _totals(table, "span", _DEVICE, 0 if steps.null_count() else int(steps.sum()), table.height)


def breakdown_of(run: Run) -> Totals | None:
    """Time of the steps of `step_breakdown`; None in a run without a trace."""
    try:
        table = step_breakdown(run)
    except MissingData:
        return None
    table = table.with_columns(whole=pl.sum_horizontal(list(_BREAKDOWN)))
    marked = steps_of_ranks(run).height
    return _totals(table, "whole", _BREAKDOWN, table.height if marked else 0, table["rank"].n_unique())


def _steps_of_ranks(run: Run) -> pl.DataFrame:
    markers = step_markers(run).unique(("rank", "step", "start"))
    return markers.group_by("rank").agg(steps=pl.len().cast(pl.Int64)).sort("rank")


def _totals(table: pl.DataFrame, whole: str, parts: dict[str, str], steps: int, lanes: int) -> Totals | None:
    if not lanes:
        return None
    sums = table.select(whole, *parts).sum().row(0, named=True)
    return Totals(
        whole=sums[whole], parts={label: sums[name] for name, label in parts.items()}, steps=steps, lanes=lanes
    )
