"""Time that chosen work takes on a device that is busy, per step: what goes when that work goes."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound.bound import UTILIZED
from stepscope.analyses.bound.lib.device_shares import DeviceIdle, device_idle
from stepscope.analyses.lib.device_work import device_work
from stepscope.core.finding import Confidence, Evidence, Gain
from stepscope.core.intervals import intersect, spans, subtract, total
from stepscope.core.run import Run

__all__ = ["Chosen", "above", "chosen_work", "cost", "ranks_of", "saved"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """Chosen work on one device that is busy: `time` in ns per step in which nothing else runs there, `count` per step.

    `device` is what else it did.
    """

    time: float
    count: float
    device: DeviceIdle

    @property
    def share(self) -> float:
        """Share of the step."""
        return self.time / self.device.step if self.device.step else 0.0


def chosen_work(run: Run, chosen: pl.Series) -> tuple[Chosen, ...]:
    """The `chosen` rows of `device_work`, on the busiest device of each rank that is busy for UTILIZED of its step."""
    return tuple(_of_device(run, chosen, row) for row in device_idle(run) if row.utilization >= UTILIZED)


def above(found: tuple[Chosen, ...], share: float) -> tuple[Chosen, ...]:
    """Those that take more than this share of their step, largest share first."""
    return tuple(sorted((one for one in found if one.share > share), key=lambda one: -one.share))


def ranks_of(found: Sequence[Chosen]) -> tuple[int, ...]:
    """Their ranks, in order."""
    return tuple(sorted(one.device.rank for one in found))


def cost(label: str, worst: Chosen) -> Evidence:
    """The first figure of a finding."""
    return Evidence(label=label, value=worst.time, unit="ns", source="kernels", share=worst.share)


def saved(worst: Chosen, part: tuple[float, float], basis: str, confidence: Confidence) -> Gain:
    """The gain if these parts of the time are saved at least and at most."""
    low, high = (int(share * worst.time) for share in part)
    return Gain(
        low_ns=low, high_ns=high, step_ns=int(worst.device.step), basis=basis, confidence=confidence, pool="device"
    )


def _of_device(run: Run, chosen: pl.Series, row: DeviceIdle) -> Chosen:
    own = (pl.col("rank") == row.rank) & pl.col("device").eq_missing(row.device)
    work = device_work(run).with_columns(chosen=chosen).filter(own)
    mine = work.filter("chosen")
    others = work.filter(~pl.col("chosen") & (pl.col("role") == "compute"))
    alone = intersect(subtract(spans(mine), spans(others)), row.window)
    return Chosen(time=total(alone) / row.steps, count=row.per_step(mine["start"].to_numpy()), device=row)
