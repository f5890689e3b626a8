"""Communication that nothing hides, of each rank of a job, and how much of it a change could remove."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import polars as pl

from stepscope.analyses.bound.lib.device_shares import SHORTEST, device_idle
from stepscope.analyses.bound.lib.straggler import delay_by_late_rank
from stepscope.analyses.communication.overlap import overlap
from stepscope.analyses.lib.sample_work import has_gpu, need_gpu
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["Exposed", "exposed_communication"]

_OF_DEVICE = "device_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposed:
    """The mean step of a rank, of which `steps` were traced, and what `source` says of it; times in ns.

    `removable` is the part of `communication` that is no wait for other ranks: less what the late rank costs, and no
    more than brings the step down to what some rank needs for everything else, as ranks go step by step together.
    `told` is what counts as communication in `bound`: all of it on a device, where hosts communicate what is removable.
    """

    rank: int
    step: float
    communication: float
    compute: float
    removable: float
    steps: int
    source: str

    @property
    def told(self) -> float:
        return self.communication if self.source == _OF_DEVICE else self.removable


def exposed_communication(run: Run) -> tuple[Exposed, ...]:
    """One row for each rank. Raises MissingData where nothing tells: without device work, or without collectives."""
    return run.once(_exposed_communication)


def _exposed_communication(run: Run) -> tuple[Exposed, ...]:
    rows = tuple(_of_devices(run) if has_gpu(run) else _of_hosts(run))
    needed = max((row.step - row.communication for row in rows if row.communication > 0), default=0.0)
    return tuple(replace(row, removable=_removable(run, row, needed)) for row in rows)


def _removable(run: Run, row: Exposed, needed: float) -> float:
    return max(0.0, min(row.communication - delay_by_late_rank(run, row.rank), row.step - needed))


def _of_devices(run: Run) -> Iterator[Exposed]:
    for row in device_idle(run):
        yield Exposed(
            rank=row.rank, step=row.step, communication=row.communication, compute=row.compute, removable=0.0,
            steps=row.steps, source=_OF_DEVICE,
        )  # fmt: skip


def _of_hosts(run: Run) -> Iterator[Exposed]:
    """Ranks whose host communicates, by gloo. Raises MissingData as `need_gpu` does where none is seen to."""
    try:
        table = overlap(run).filter(pl.col("duration").sum().over("rank") >= SHORTEST)
    except MissingData:
        need_gpu(run)
        raise
    computes = pl.col("compute") + pl.col("overlapped")
    means = table.group_by("rank").agg(pl.col("duration", "exposed_communication").mean(), computes.mean(), pl.len())
    untraced = _mean_steps(run)
    for rank, traced, exposed, compute, steps in means.sort("rank").iter_rows():
        step = untraced.get(rank, traced)
        scale = step / traced
        yield Exposed(
            rank=rank, step=step, communication=exposed * scale, compute=compute * scale, removable=0.0, steps=steps,
            source="overlap",
        )  # fmt: skip


def _mean_steps(run: Run) -> dict[int, float]:
    """Mean steady step of each rank: tracing makes a step longer, its shares are those of the traced steps."""
    try:
        return dict(steady_steps(run).group_by("rank").agg(pl.col("duration").mean()).iter_rows())
    except MissingData:
        return {}
