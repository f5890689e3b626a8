"""Host work during which a device has nothing to do: what goes when that work goes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound.lib.device_shares import DeviceIdle
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.core.finding import Advice, Cause, Evidence, Finding, Gain, Place, Pool, Title, Value
from stepscope.core.intervals import Spans, intersect, spans, subtract, total, union
from stepscope.core.run import Run, chain

__all__ = ["IdleMeanwhile", "Said", "idle_findings", "idle_meanwhile", "of_device"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdleMeanwhile:
    """`lost` is the time in ns per step in which the device idles while the host does such work, `count` times a step.

    `name` is that of most of it, and `size` the bytes of one, where a rule tells them.
    """

    lost: float
    count: float
    device: DeviceIdle
    name: str = ""
    size: float = 0.0

    @property
    def share(self) -> float:
        """Share of the step."""
        return self.lost / self.device.step if self.device.step else 0.0

    @property
    def takes(self) -> tuple[Value, Value]:
        """Time and share, for a title."""
        return Value(self.lost, "ns"), Value(self.share, "ratio")

    def evidence(self, label: str, source: str) -> Evidence:
        """The first figure of a finding."""
        return Evidence(label=label, value=self.lost, unit="ns", source=source, share=self.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a rule says of the rank that loses most: title and evidence, and the lines."""

    title: Title
    evidence: tuple[Evidence, ...]
    where: tuple[Place, ...]


def of_device(row: DeviceIdle) -> pl.Expr:
    """The rows of `device_work` that are of this device."""
    return (pl.col("rank") == row.rank) & pl.col("device").eq_missing(row.device)


def idle_meanwhile(
    run: Run,
    row: DeviceIdle,
    host: pl.DataFrame,
    count: float,
    *,
    name: str = "",
    size: float = 0.0,
    but: Spans | None = None,
) -> IdleMeanwhile:
    """Of the events in `host`, which have start and end, what the device idles meanwhile; not in the spans `but`."""
    watched = intersect(union(spans(host)), row.window)
    watched = watched if but is None else subtract(watched, but)
    lost = subtract(watched, spans(device_work(run).filter(of_device(row))))
    return IdleMeanwhile(lost=total(lost) / row.steps, count=count, device=row, name=name, size=size)


def idle_findings(
    run: Run,
    compute: Callable[[Run], tuple[IdleMeanwhile, ...]],
    least: float,
    say: Callable[[IdleMeanwhile], Said],
    *,
    basis: str,
    pool: Pool,
    advice: Sequence[Advice],
    cause: Cause,
) -> Iterator[Finding]:
    """A finding about what `compute`, a function of a module, gives, where it loses more than `least` of the step.

    The gain is all that is lost at most, half at least. Raises MissingData without a GPU.
    """
    need_gpu(run)
    found = [one for one in run.per_rank(compute, chain) if one.share > least]
    if not found:
        return
    worst = max(found, key=lambda one: one.share)
    said = say(worst)
    yield Finding(
        title=said.title,
        cause=cause,
        evidence=said.evidence,
        gain=Gain(
            low_ns=int(worst.lost / 2),
            high_ns=int(worst.lost),
            step_ns=int(worst.device.step),
            basis=basis,
            confidence="structural",
            pool=pool,
        ),
        advice=tuple(advice),
        ranks=tuple(sorted(one.device.rank for one in found)),
        where=said.where,
    )
