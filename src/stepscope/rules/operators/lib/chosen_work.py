"""Time that chosen work takes on a device that is busy, per step: what goes when that work goes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound.bound import UTILIZED
from stepscope.analyses.bound.lib.device_shares import DeviceIdle, device_idle
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.launch_lines import launch_places
from stepscope.core.finding import Advice, Cause, Confidence, Evidence, Finding, Gain, Title, Value
from stepscope.core.intervals import intersect, spans, subtract, total
from stepscope.core.run import Run, stack

__all__ = ["Chosen", "above", "chosen_work", "work_finding"]


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

    @property
    def takes(self) -> tuple[Value, Value]:
        """Time and share, for a title."""
        return Value(self.time, "ns"), Value(self.share, "ratio")


def chosen_work(run: Run, chosen: pl.Series) -> tuple[Chosen, ...]:
    """The `chosen` rows of `device_work`, on the busiest device of each rank that is busy for UTILIZED of its step."""
    return tuple(_of_device(run, chosen, row) for row in device_idle(run) if row.utilization >= UTILIZED)


def above(found: tuple[Chosen, ...], share: float) -> tuple[Chosen, ...]:
    """Those that take more than this share of their step, largest share first."""
    return tuple(sorted((one for one in found if one.share > share), key=lambda one: -one.share))


def work_finding(
    run: Run,
    slow: Sequence[Chosen],
    lines: Callable[[Run], pl.DataFrame],
    title: Title,
    *,
    labels: tuple[str, str],
    part: tuple[float, float],
    basis: str,
    advice: tuple[Advice, ...],
    cause: Cause = "operator",
    confidence: Confidence = "structural",
) -> Finding:
    """What is said of such work, largest share first in `slow`: `labels` are of its time and of its number per step.

    `part` of the time is saved at least and at most. `lines` gives the lines that launch it, see `launch_lines`.
    """
    worst = slow[0]
    time, count = labels
    low, high = (int(share * worst.time) for share in part)
    return Finding(
        title=title,
        cause=cause,
        evidence=(
            Evidence(label=time, value=worst.time, unit="ns", source="kernels", share=worst.share),
            Evidence(label=count, value=worst.count, unit="count", source="kernels"),
        ),
        gain=Gain(
            low_ns=low, high_ns=high, step_ns=int(worst.device.step), basis=basis, confidence=confidence, pool="device"
        ),
        advice=advice,
        ranks=tuple(sorted(one.device.rank for one in slow)),
        where=launch_places(run.per_rank(lines, stack, only=worst.device.rank), worst.device.rank, worst.share),
    )


def _of_device(run: Run, chosen: pl.Series, row: DeviceIdle) -> Chosen:
    own = (pl.col("rank") == row.rank) & pl.col("device").eq_missing(row.device)
    work = device_work(run).with_columns(chosen=chosen).filter(own)
    mine = work.filter("chosen")
    others = work.filter(~pl.col("chosen") & (pl.col("role") == "compute"))
    alone = intersect(subtract(spans(mine), spans(others)), row.window)
    return Chosen(time=total(alone) / row.steps, count=row.per_step(mine["start"].to_numpy()), device=row)
