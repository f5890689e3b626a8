"""Time that chosen work takes on a device that is busy, per step: what goes when that work goes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound.lib.device_shares import DeviceIdle, device_idle
from stepscope.analyses.bound.lib.thresholds import UTILIZED
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.launch_lines import launch_lines, launch_places
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.core.finding import Advice, Cause, Confidence, Evidence, Finding, Gain, Title, Value
from stepscope.core.intervals import intersect, spans, subtract, total
from stepscope.core.run import Run, chain, stack
from stepscope.core.synth import Synth

__all__ = ["Chosen", "above", "chosen_work", "work_example", "work_finding", "work_findings"]

BLOCKS = 4.0  # per multiprocessor, of the kernels of examples: they fill the device

Choose = Callable[[Run], pl.Series]
"""A function of a module: which rows of `device_work` are meant."""


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


@dataclass(frozen=True, slots=True)
class _OnBusyDevices:
    """`chosen_work` of what a rule means; equal for the same `choose`, as `Run.per_rank` asks of functions."""

    choose: Choose

    def __call__(self, run: Run) -> tuple[Chosen, ...]:
        return chosen_work(run, self.choose(run))


@dataclass(frozen=True, slots=True)
class _Lines:
    """`launch_lines` of what a rule means."""

    choose: Choose

    def __call__(self, run: Run) -> pl.DataFrame:
        return launch_lines(run, self.choose(run))


def work_findings(
    run: Run,
    choose: Choose,
    least: float,
    words: str,
    *,
    labels: tuple[str, str],
    part: tuple[float, float],
    basis: str,
    advice: tuple[Advice, ...],
    cause: Cause = "operator",
    confidence: Confidence = "structural",
    fewest: int = 0,
) -> Iterator[Finding]:
    """The finding of a rule about the work that `choose` means, if it takes more than `least` of the step.

    `words` are of the title and have places for time and share; `fewest` is the least number of it per step. The rest
    is as in `work_finding`. Raises MissingData without a GPU.
    """
    need_gpu(run)
    found = run.per_rank(_OnBusyDevices(choose), chain)
    slow = [one for one in above(found, least) if one.count >= fewest]
    if slow:
        title = Title(words, slow[0].takes)
        yield work_finding(
            run, slow, _Lines(choose), title, labels=labels, part=part, basis=basis, advice=advice, cause=cause,
            confidence=confidence,
        )  # fmt: skip


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


def work_example(synth: Synth, name: str, took: float, *, beside: float = 90, other: str = "gemm") -> None:
    """Steps of `beside` ms of another kernel and `took` ms of the kernel `name`, which is not there if that is 0."""
    for step in range(4):
        start = step * (beside + took)
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + beside + took)
        synth.kernel(start, start + beside, other, blocks_per_sm=BLOCKS)
        if took:
            synth.kernel(start + beside, start + beside + took, name, blocks_per_sm=BLOCKS)


def _of_device(run: Run, chosen: pl.Series, row: DeviceIdle) -> Chosen:
    own = (pl.col("rank") == row.rank) & pl.col("device").eq_missing(row.device)
    work = device_work(run).with_columns(chosen=chosen).filter(own)
    mine = work.filter("chosen")
    others = work.filter(~pl.col("chosen") & (pl.col("role") == "compute"))
    alone = intersect(subtract(spans(mine), spans(others)), row.window)
    return Chosen(time=total(alone) / row.steps, count=row.per_step(mine["start"].to_numpy()), device=row)
