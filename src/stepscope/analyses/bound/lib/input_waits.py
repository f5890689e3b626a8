"""How long each rank waits for its loader, and which ranks wait longest."""

from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound.lib.device_shares import device_idle
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["MIN_SHARE", "InputWait", "input_waits", "longest_waits"]

MIN_SHARE = 0.05  # of the step: the reader ratio from which Paddle and torch_tb_profiler advise too
ALIKE = 0.05  # of the step: ranks whose waits differ by less wait for the same reason


@dataclass(frozen=True, slots=True)
class InputWait:
    """Mean wait, step and backward of a rank in ns, and the share of its waiting in first steps of epochs.

    `wait` is the part of `waiting` in which the device has nothing to do, where a trace tells, else all of it.
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
        raise MissingData("wait for a DataLoader of torch", how="run it with `stepscope run -- COMMAND`")
    exposed = _exposed(run)
    return tuple(
        InputWait(rank, wait, wait * exposed.get(rank, 1.0), step, backward, at_start or 0.0)
        for rank, wait, step, backward, at_start in means.sort("rank").iter_rows()
    )


def longest_waits(waits: tuple[InputWait, ...]) -> tuple[InputWait, ...]:
    """The rank that waits for the longest part of its step, then those that wait alike; none below MIN_SHARE."""
    worst = max(waits, key=lambda row: row.wait / row.step)
    if worst.wait <= MIN_SHARE * worst.step:
        return ()
    alike = worst.wait / worst.step - ALIKE
    return (worst, *(row for row in waits if row is not worst and row.wait / row.step >= alike))


def _exposed(run: Run) -> dict[int, float]:
    """Share of the wait that leaves the device without work, where a trace tells."""
    if not has_gpu(run):
        return {}
    try:
        return {row.rank: row.wait_exposed for row in device_idle(run) if row.wait_exposed is not None}
    except MissingData:
        return {}
