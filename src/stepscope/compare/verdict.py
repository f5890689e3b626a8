"""Which of two runs is faster, or why that cannot be said.

The rule: B is faster or slower if the 95 % interval of the ratio of mean speeds leaves 1 out, also after it is widened
by all that a trend in either run and other programs can have done. Below SAME two runs of one command differ anyhow. If
the interval holds 1 and is narrow, there is no difference that the noise would not make. All else is inconclusive, and
says why.
"""

import math
from dataclasses import dataclass
from typing import Literal

from stepscope.compare.drift import Unsteady, unsteadiness
from stepscope.compare.run_summary import Side
from stepscope.compare.series import Series
from stepscope.compare.statistics import LEAST, Ratio, speed_ratio

__all__ = ["ENOUGH", "NARROW", "SAME", "Doubt", "Outcome", "Speed", "judged", "speed_of"]

ENOUGH = 10
"""Steps that a run must have: of fewer, the autocorrelation, and with it the interval, cannot be told."""

SAME = 0.01
"""Of the speed. Two runs of one unchanged command differ by more without a cause (Mytkowicz et al. 2009)."""

NARROW = 0.10
"""Ratio of the ends of an interval, less 1, up to which "no difference" says something."""

_LEFT = 0.01  # of the step is its own at least, whatever others took
_TAKEN = 0.02  # of the step: less is what every machine's own services take

Which = Literal["A", "B"]
_SIDES: tuple[Which, Which] = ("A", "B")
Cause = Literal["no-steps", "few-steps", "traced", "trend", "levels", "cores", "wide"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Something that weakens the comparison: its cause, the run it is about (None: both), and its size.

    The size is a number of steps (few-steps) or a share of the step (trend, levels, cores; negative for a trend towards
    faster steps); None for the other causes.
    """

    cause: Cause
    side: Which | None
    size: float | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Speed:
    """The steps that are compared, and their ratio; None on a side that has none, or of fewer than LEAST steps."""

    a: Series | None
    b: Series | None
    ratio: Ratio | None
    samples: Ratio | None
    unsteady_a: tuple[Unsteady, ...] = ()
    unsteady_b: tuple[Unsteady, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """faster: B is; slower: B is; same; inconclusive, because of `because`. `doubts` are all, decisive or not.

    `allowed` is how many times as long the doubts together can have made a step, 1 if not at all.
    """

    kind: Literal["faster", "slower", "same", "inconclusive"]
    because: tuple[Doubt, ...]
    doubts: tuple[Doubt, ...]
    allowed: float = 1.0


def speed_of(a: Side, b: Side) -> Speed:
    """Compare untraced steps with untraced ones, else traced with traced ones, else what there is."""
    pairs = ((a.untraced, b.untraced), (a.traced, b.traced), (a.untraced or a.traced, b.untraced or b.traced))
    one, two = next(((one, two) for one, two in pairs if one and two), pairs[-1])
    if one is None or two is None or min(len(one.times), len(two.times)) < LEAST:
        return Speed(a=one, b=two, ratio=None, samples=None)
    samples = None
    if one.samples is not None and two.samples is not None and min(one.samples.sum(), two.samples.sum()) > 0:
        samples = speed_ratio(one.times, two.times, one.samples, two.samples)
    return Speed(
        a=one, b=two, ratio=speed_ratio(one.times, two.times), samples=samples,
        unsteady_a=unsteadiness(one.times), unsteady_b=unsteadiness(two.times),
    )  # fmt: skip


def judged(a: Side, b: Side, speed: Speed) -> Outcome:
    """Decide. What makes a comparison impossible comes first, then what the interval and the doubts allow."""
    impossible, doubts = _impossible(speed), _doubts(a, b, speed)
    if impossible or speed.ratio is None:
        return Outcome(kind="inconclusive", because=impossible, doubts=(*impossible, *doubts))
    ratio, allowed = speed.ratio, math.prod(map(_allowance, doubts))
    differs = _leaves_out_one(ratio, 1.0) and abs(math.log(ratio.estimate)) > math.log1p(SAME)
    if differs and _leaves_out_one(ratio, allowed):
        kind: Literal["faster", "slower"] = "faster" if ratio.estimate > 1 else "slower"
        return Outcome(kind=kind, because=(), doubts=doubts, allowed=allowed)
    narrow = ratio.high / ratio.low <= 1 + NARROW
    moving = tuple(doubt for doubt in doubts if _allowance(doubt) > 1)
    if differs or (narrow and allowed**2 > 1 + NARROW):
        return Outcome(kind="inconclusive", because=moving, doubts=doubts, allowed=allowed)
    if narrow:
        return Outcome(kind="same", because=(), doubts=doubts, allowed=allowed)
    wide = Doubt(cause="wide", side=None)
    return Outcome(kind="inconclusive", because=(*doubts, wide), doubts=(*doubts, wide), allowed=allowed)


def _impossible(speed: Speed) -> tuple[Doubt, ...]:
    missing = tuple(
        Doubt(cause="no-steps", side=side) for side, one in zip(_SIDES, (speed.a, speed.b), strict=True) if one is None
    )
    if missing or speed.a is None or speed.b is None:
        return missing if len(missing) == 1 else (Doubt(cause="no-steps", side=None),)
    few = tuple(
        Doubt(cause="few-steps", side=side, size=len(one.times))
        for side, one in zip(_SIDES, (speed.a, speed.b), strict=True)
        if one is not None and len(one.times) < ENOUGH
    )
    if speed.a.traced != speed.b.traced:
        return (Doubt(cause="traced", side="A" if speed.a.traced else "B"), *few)
    return few


def _doubts(a: Side, b: Side, speed: Speed) -> tuple[Doubt, ...]:
    """What other programs can have done comes first: a trend and two levels often follow from it."""
    found = [
        Doubt(cause="cores", side=side, size=one.taken)
        for side, one in zip(_SIDES, (a, b), strict=True)
        if one.taken is not None and one.taken >= _TAKEN
    ]
    found += [
        Doubt(cause=one.kind, side=side, size=one.size, share=one.share)
        for side, flaws in zip(_SIDES, (speed.unsteady_a, speed.unsteady_b), strict=True)
        for one in flaws
    ]
    return tuple(found)


def _allowance(doubt: Doubt) -> float:
    """How many times as long the mean step can be for the reason of the doubt alone; between two levels blocks tell."""
    match doubt.cause:
        case "cores":
            return 1 / max(1 - (doubt.size or 0.0), _LEFT)
        case "trend":
            return 1 + abs(doubt.size or 0.0)
        case _:
            return 1.0


def _leaves_out_one(ratio: Ratio, allowed: float) -> bool:
    """Whether the interval, widened by a factor on both sides, leaves 1 out."""
    return ratio.low / allowed > 1 or ratio.high * allowed < 1
