"""What the devices do: time that computes, communicates, copies and idles; how full they are; the host's load."""

from collections.abc import Callable

import polars as pl

from stepscope.analyses.device.device_summary import device_summary
from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.device.gpu_summary import gpu_summary
from stepscope.analyses.device.other_devices import other_devices
from stepscope.analyses.steps.steady_steps import marks_steps
from stepscope.core.errors import MissingData
from stepscope.core.report import Block, Section, Table, Text
from stepscope.core.run import Run
from stepscope.core.schema import Unit
from stepscope.report.sections import RANKS_SHOWN, Columns, excerpt, has_device_work

__all__ = ["SECTION"]

_TIME = {
    "rank": "rank", "device": "device", "span": "span", "compute_busy": "compute", "exposed_communication":
    "exposed communication", "exposed_memory": "exposed copies", "idle": "idle",
}  # fmt: skip
_GPU = {
    "rank": "rank", "device": "device", "name": "name", "utilization": "utilization", "sm_efficiency":
    "mean SM efficiency (est.)", "occupancy": "mean occupancy (est.)", "tensor_core_share": "Tensor Cores",
}  # fmt: skip
_OTHER = {
    "rank": "rank", "device": "device", "span": "span", "compute_busy": "compute", "exposed_memory": "exposed copies",
    "idle": "idle",
}  # fmt: skip
_LOAD = {"helper core wait": "core wait of workers", "core wait": "core wait of training"}
_UTILIZATION = "Utilization: share of the traced steps in which a kernel runs, from the first step to the last."
_WHOLE = "Utilization: share of the recording in which a kernel runs, from the first event to the last."
_UNITS: dict[str, Unit] = {"ratio": "ratio", "cores": "count", "bytes": "bytes", "watts": "watts"}


def build(run: Run) -> list[Block]:
    makers: tuple[Callable[[Run], list[Block]], ...] = (_times, _fullness, _others) if has_device_work(run) else ()
    blocks: list[Block] = []
    missing: list[MissingData] = []
    for maker in (*makers, _load):
        try:
            blocks += maker(run)
        except MissingData as lack:
            missing.append(lack)
    if not blocks and missing:
        raise missing[0]
    return blocks


def _times(run: Run) -> list[Block]:
    return excerpt("Time of each device", device_time, device_time(run), _TIME, limit=RANKS_SHOWN, name="device_time")


def _fullness(run: Run) -> list[Block]:
    table = gpu_summary(run)
    note = Text(_UTILIZATION if marks_steps(run) else _WHOLE)
    return [*excerpt("Use of each device", gpu_summary, table, _GPU, limit=RANKS_SHOWN, name="gpu_summary"), note]


def _others(run: Run) -> list[Block]:
    title = "Time of each device"
    return excerpt(title, other_devices, other_devices(run), _OTHER, limit=RANKS_SHOWN, name="other_devices")


def _load(run: Run) -> list[Block]:
    """Samples taken outside the job; a table for each unit."""
    table = device_summary(run)
    blocks: list[Block] = []
    for unit in table["unit"].unique(maintain_order=True):
        what = pl.col("what").replace(_LOAD)
        rows = table.filter(pl.col("unit") == unit).select(
            pl.format("{}, cores", what) if unit == "cores" else what, "samples", "mean", "max", "min"
        )
        shown = _UNITS.get(unit)
        columns: Columns = (
            ("load", None), ("samples", "count"), ("mean", shown), ("max", shown), ("min", shown),
        )  # fmt: skip
        title = "" if blocks else "Load of the machine, sampled every second"
        blocks.append(Table(title, columns, tuple(rows.iter_rows())))
    return blocks


SECTION = Section(title="Devices and host load", order=70, group="kernels", build=build)
