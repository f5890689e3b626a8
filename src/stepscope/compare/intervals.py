"""The interval of a ratio of speeds, with the sentence that says whether it is a difference."""

import math
from collections.abc import Iterable

from stepscope.compare.comparison import Comparison
from stepscope.compare.statistics import Ratio
from stepscope.compare.verdict import SAME, Outcome
from stepscope.core.report import Interval

__all__ = ["intervals_of"]

_OTHERWISE = "a trend in a run, or other programs on its cores,"


def intervals_of(comparison: Comparison) -> Iterable[Interval]:
    """That of steps, and where steps differ in their samples that of samples. One recording has no difference."""
    speed, outcome = comparison.speed, comparison.outcome
    if comparison.one_recording or speed.ratio is None:
        return
    yield _interval("Speed of B over A, steps per second", speed.ratio, outcome, _meaning(speed.ratio, outcome))
    if speed.samples and speed.a and speed.b and not _as_many(comparison):
        meaning = "The same in samples per second, as the steps of A and B do not hold as many."
        yield _interval("Samples per second, B over A", speed.samples, outcome, meaning)


def _as_many(comparison: Comparison) -> bool:
    a, b = comparison.speed.a, comparison.speed.b
    if a is None or b is None or a.samples is None or b.samples is None:
        return True
    return round(float(a.samples.mean()), 1) == round(float(b.samples.mean()), 1)


def _interval(title: str, ratio: Ratio, outcome: Outcome, meaning: str) -> Interval:
    allowed = outcome.allowed
    return Interval(
        title=title,
        estimate=ratio.estimate,
        low=ratio.low,
        high=ratio.high,
        kind=outcome.kind,
        meaning=meaning,
        widened=(ratio.low / allowed, ratio.high * allowed) if allowed > 1 else None,
    )


def _meaning(ratio: Ratio, outcome: Outcome) -> str:
    leaves_out = ratio.low > 1 or ratio.high < 1
    also = f", even if {_OTHERWISE} slowed one down" if outcome.allowed > 1 else ""
    match outcome.kind:
        case "faster":
            return f"A difference: the whole interval is above 1{also}."
        case "slower":
            return f"A difference: the whole interval is below 1{also}."
        case "same" if abs(math.log(ratio.estimate)) <= math.log1p(SAME) and leaves_out:
            return "No relevant difference: it is below 1 %, and two runs of one command differ by more."
        case "same":
            return "No difference beyond noise: the interval includes 1 and is narrow."
    causes = {doubt.cause for doubt in outcome.because}
    if "traced" in causes:
        return "Inconclusive: one run was traced, and tracing makes steps longer."
    if "few-steps" in causes:
        return "Inconclusive: too few steps."
    if leaves_out and outcome.allowed > 1:
        return f"Inconclusive: {_OTHERWISE} could explain the difference."
    if "wide" in causes:
        return "Inconclusive: the interval includes 1 and is wide."
    return f"Inconclusive: the interval includes 1, and {_OTHERWISE} could hide a difference."
