"""Copies that no kernel runs beside, on the busiest device of each rank: what a step saves when they are hidden."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound.lib.device_shares import DeviceIdle, device_idle
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.launch_lines import launch_lines, launch_places
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.core.finding import Evidence, Gain, Place
from stepscope.core.intervals import intersect, spans, subtract, total
from stepscope.core.run import Run, chain, stack

__all__ = ["ExposedCopies", "copy_lines", "exposed_copies"]

MIN_SHARE = 0.05  # of the step: a smaller gain drowns in the noise between two runs

Choose = Callable[[Run], pl.Series]
"""A function of a module: which rows of `device_work`, with name and bytes, are meant."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExposedCopies:
    """`time` in ns and `size` in bytes per step of copies on one device, and what else it did."""

    time: float
    size: float
    device: DeviceIdle

    @property
    def share(self) -> float:
        """Share of the step."""
        return self.time / self.device.step

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Time and bytes of a step."""
        time, label = self.time, "exposed copies per step"
        return (
            Evidence(label=label, value=time, unit="ns", source="device_time", share=self.share),
            Evidence(label="bytes copied per step", value=self.size, unit="bytes", source="device"),
        )

    def gain(self, basis: str) -> Gain:
        """All of the time; half of it where kernels that hide it become longer."""
        return Gain(
            low_ns=int(self.time / 2), high_ns=int(self.time), step_ns=int(self.device.step), basis=basis,
            confidence="structural", pool="copies",
        )  # fmt: skip


def exposed_copies(run: Run, choose: Choose) -> tuple[ExposedCopies, ...]:
    """Ranks on which such copies take more than MIN_SHARE of the step, the largest share first.

    Raises MissingData without a GPU.
    """
    need_gpu(run)
    found = [copies for copies in run.per_rank(_Copies(choose), chain) if copies.share > MIN_SHARE]
    return tuple(sorted(found, key=lambda copies: -copies.share))


def copy_lines(run: Run, choose: Choose, copies: ExposedCopies) -> tuple[Place, ...]:
    """The lines that copy."""
    rank = copies.device.rank
    return launch_places(run.per_rank(_Lines(choose), stack, only=rank), rank, copies.share)


@dataclass(frozen=True, slots=True)
class _Copies:
    """The copies that a rule means; equal for the same `choose`, as `Run.per_rank` asks of functions."""

    choose: Choose

    def __call__(self, run: Run) -> tuple[ExposedCopies, ...]:
        chosen = self.choose(run)
        return tuple(_of_device(run, chosen, row) for row in device_idle(run))


@dataclass(frozen=True, slots=True)
class _Lines:
    """`launch_lines` of the copies that a rule means."""

    choose: Choose

    def __call__(self, run: Run) -> pl.DataFrame:
        return launch_lines(run, self.choose(run))


def _of_device(run: Run, chosen: pl.Series, row: DeviceIdle) -> ExposedCopies:
    own = (pl.col("rank") == row.rank) & pl.col("device").eq_missing(row.device)
    work = device_work(run, "name", "bytes").with_columns(chosen=chosen).filter(own)
    copies = work.filter("chosen")
    exposed = subtract(spans(copies), spans(work.filter(pl.col("kind") == "kernel")))
    time = total(intersect(exposed, row.window)) / row.steps
    return ExposedCopies(time=time, size=float(copies["bytes"].sum()) / row.steps, device=row)
