"""What chosen operators cost: the work they launch on a device that is busy, or their time on the host without one."""

from dataclasses import dataclass

import polars as pl

from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.core.finding import Confidence, Evidence, Gain, Value
from stepscope.core.run import Run
from stepscope.rules.operators.lib.chosen_work import chosen_work
from stepscope.rules.operators.lib.launchers import Bools, launched_by
from stepscope.rules.operators.lib.operator_time import operator_time

__all__ = ["OperatorCost", "costly", "operator_costs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCost:
    """Time and step of a rank, in ns, and how many kernels or operators that is per step."""

    rank: int
    time: float
    step: float
    count: float
    source: str

    @property
    def share(self) -> float:
        """Share of the step."""
        return self.time / self.step if self.step else 0.0

    @property
    def takes(self) -> tuple[Value, Value]:
        """Time and share, for a title."""
        return Value(self.time, "ns"), Value(self.share, "ratio")

    def evidence(self, label: str) -> Evidence:
        """The first figure of a finding."""
        return Evidence(label=label, value=self.time, unit="ns", source=self.source, share=self.share)

    def gain(self, part: tuple[float, float], basis: str, confidence: Confidence) -> Gain:
        """The gain if these parts of the time are saved at least and at most."""
        low, high = (int(share * self.time) for share in part)
        return Gain(low_ns=low, high_ns=high, step_ns=int(self.step), basis=basis, confidence=confidence, pool="device")


def operator_costs(run: Run, marked: Bools, work: pl.Series | None = None) -> tuple[OperatorCost, ...]:
    """By rank, of marked rows of `host_tree`; `work` are the rows of `device_work`, else what marked rows launched."""
    if not has_gpu(run):
        return tuple(
            OperatorCost(rank=one.rank, time=one.time, step=one.step, count=one.count, source="operators")
            for one in operator_time(run, marked)
        )
    found = chosen_work(run, launched_by(run, marked) if work is None else work)
    return tuple(
        OperatorCost(rank=one.device.rank, time=one.time, step=one.device.step, count=one.count, source="kernels")
        for one in found
    )


def costly(found: tuple[OperatorCost, ...], share: float) -> tuple[OperatorCost, ...]:
    """Those that take more than this share of their step, largest share first."""
    return tuple(sorted((one for one in found if one.share > share), key=lambda one: -one.share))
