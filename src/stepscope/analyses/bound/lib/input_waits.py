"""How long each rank waits for its loader."""

from dataclasses import dataclass, replace

import polars as pl

from stepscope.analyses.bound.lib.device_shares import DeviceIdle, idle_by_rank
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["MIN_SHARE", "InputWait", "input_share", "input_waits"]

MIN_SHARE = 0.05  # of the step: the reader ratio from which Paddle and torch_tb_profiler advise too


@dataclass(frozen=True, slots=True)
class InputWait:
    """Mean wait, step and backward of a rank in ns, and the share of its waiting in first steps of epochs.

    `wait` is the part of `waiting` in which the device has nothing to do, where a trace tells, else all of it. There
    `step` is that of the device, and both waits are on its clock: their shares are those of `bound`.
    """

    rank: int
    waiting: float
    wait: float
    step: float
    backward: float
    at_start: float


def input_waits(run: Run) -> tuple[InputWait, ...]:
    """The waits of each rank. Raises MissingData where none was recorded."""
    start = pl.col("data_wait").filter(pl.col("tags").list.contains("epoch-start").fill_null(False)).sum()
    means = enough_steps(run).filter(pl.col("data_wait").is_not_null()).group_by("rank").agg(
        pl.col("data_wait", "duration", "backward").mean(), (start / pl.col("data_wait").sum()).alias("at_start")
    ).with_columns(pl.col("backward").fill_null(0.0))  # fmt: skip
    if means.is_empty():
        raise MissingData("data wait of a torch DataLoader", how="run it with `stepscope run -- COMMAND`")
    devices = _devices(run)
    return tuple(
        _of_device(run, row, devices[row.rank]) if row.rank in devices else row
        for row in (
            InputWait(rank, wait, wait, step, backward, at_start or 0.0)
            for rank, wait, step, backward, at_start in means.sort("rank").iter_rows()
        )
    )


def _of_device(run: Run, row: InputWait, device: DeviceIdle) -> InputWait:
    waiting = row.waiting / row.step * device.step if row.step else row.waiting
    wait = input_share(run, device) * device.step
    return replace(row, waiting=max(waiting, wait), wait=wait, step=device.step)


def input_share(run: Run, row: DeviceIdle) -> float:
    """The share of a rank's step in which it waits for data and its device has nothing to do.

    The probe times every wait, the trace tells how much of one leaves the device without work: no more than it idles.
    """
    try:
        table = steady_steps(run).filter((pl.col("rank") == row.rank) & (pl.col("clock") != "kineto"))
    except MissingData:
        return row.input / row.step
    if not table["data_wait"].count() or row.wait_exposed is None:
        return row.input / row.step
    waits = int(table["data_wait"].sum()) / int(table["duration"].sum()) * row.wait_exposed
    return min(waits, max(0.0, 1.0 - row.utilization))


def _devices(run: Run) -> dict[int, DeviceIdle]:
    """The ranks of which a trace tells how much of a wait leaves the device without work."""
    return {rank: row for rank, row in idle_by_rank(run).items() if row.wait_exposed is not None}
