"""The outcome of a comparison in words: one sentence for the verdict, one for each doubt with what to do about it."""

from stepscope.compare.comparison import Comparison
from stepscope.compare.sameness import what_makes_them_different_jobs
from stepscope.compare.series import Series
from stepscope.compare.statistics import Ratio
from stepscope.compare.verdict import ENOUGH, Doubt
from stepscope.core.plural import plural
from stepscope.core.report import Text, Value

__all__ = ["doubt_text", "samples_text", "verdict_text"]

_LONGER = "record more steps of both runs"
_STEADY = (
    "for steady steps, fix the seed (`torch.manual_seed(0)`), use batches of one shape, and do not shuffle, validate "
    "or save checkpoints"
)
_EQUAL = 0.005  # of 1: a ratio that three digits do not tell from it
_CLOCKS = "tracing makes steps longer"


def verdict_text(comparison: Comparison) -> Text:
    """The verdict in one sentence, or in two where it is inconclusive: why, and what to do. That the runs are of
    different jobs is said first."""
    verdict = _verdict(comparison)
    differing = what_makes_them_different_jobs(comparison.settings)
    if not differing:
        return verdict
    return Text(f"Different jobs ({' and '.join(differing)} differ). {verdict.text}", verdict.values)


def _verdict(comparison: Comparison) -> Text:
    speed, ratio = comparison.speed, comparison.speed.ratio
    if comparison.one_recording:
        return _one_recording(speed.a)
    match comparison.outcome.kind:
        case "faster" if ratio:
            text, values = _ratio("B is {}× as fast as A", ratio)
        case "slower" if ratio:
            text, values = _ratio("B is slower: A is {}× as fast as B", ratio.inverse())
        case "same" if ratio:
            text, values = _ratio("No difference beyond noise: B is {}× as fast as A", ratio)
        case _:
            return _inconclusive(comparison)
    return _sentence(text, values, _steps(speed.a, speed.b))


def samples_text(comparison: Comparison) -> Text | None:
    """Samples per second, where the steps of the two runs do not do the same amount of work; else None."""
    speed = comparison.speed
    if comparison.one_recording or speed.samples is None or speed.a is None or speed.b is None:
        return None
    rates = [_rate(one) for one in (speed.a, speed.b)]
    sizes = [_size(one) for one in (speed.a, speed.b)]
    if sizes[0] == sizes[1]:
        return None
    text, values = _ratio("B processes {}× as many samples per second", speed.samples)
    return _sentence(
        f"A step has {{}} samples in A, {{}} in B: {text}",
        (Value(sizes[0], "count"), Value(sizes[1], "count"), *values),
        Text("{} → {} per second and rank", (Value(rates[0], "count"), Value(rates[1], "count"))),
    )


def doubt_text(doubt: Doubt) -> Text:
    """What weakens the comparison, and what to do about it."""
    size = abs(doubt.size or 0)
    match doubt.cause:
        case "no-steps":
            why = f"{doubt.side or 'A or B'} has no step markers, so whole recordings are compared"
            return Text(f"{why}; record steps with `stepscope run -- COMMAND`")
        case "few-steps":
            count = "one step" if size == 1 else f"{{}} {plural(size, 'step')}"
            values = (*(() if size == 1 else (Value(size, "count"),)), Value(ENOUGH, "count"))
            why = f"{doubt.side} has only {count}; separating change from noise takes {{}}"
            return Text(f"{why}; {_LONGER}", values)
        case "traced":
            other = "B" if doubt.side == "A" else "A"
            why = f"{doubt.side} has traced steps only, {other} untraced ones; {_CLOCKS}"
            return Text(f"{why}: record both with `stepscope run -- COMMAND`")
        case "trend":
            way = "shorter" if (doubt.size or 0) < 0 else "longer"
            text = f"steps of {doubt.side} get {{}} {way} over the run; {_LONGER}; {_STEADY}"
            return Text(text, (Value(size, "ratio"),))
        case "levels":
            text = f"steps of {doubt.side} have two speeds {{}} apart, and {{}} are slow; {_STEADY}"
            return Text(text, (Value(size, "ratio"), Value(doubt.share or 0.0, "ratio")))
        case "cores":
            text = f"other programs used the cores, at a cost of up to {{}} of each step of {doubt.side}"
            return Text(f"{text}; run it again on a quiet machine", (Value(size, "ratio"),))
        case "wide":
            return Text(f"the interval includes 1 and is wide, so noise hides any difference; {_LONGER}")


def _one_recording(series: Series | None) -> Text:
    """Nothing is estimated: whatever was measured, it is the same."""
    text = "No difference: A and B are the same recording"
    if series is None:
        return Text(f"{text}.")
    return Text(f"{text}, {{}} per step.", (Value(series.phases.whole, "ns"),))


def _inconclusive(comparison: Comparison) -> Text:
    ratio = comparison.speed.ratio
    first, *_ = comparison.outcome.because
    why = doubt_text(first)
    seen = _recorded(comparison) or _steps(comparison.speed.a, comparison.speed.b)
    text, values = f"Inconclusive: {why.text}. Seen", why.values
    if ratio is None:
        alone = _without_interval(comparison.speed.a, comparison.speed.b)
        told = f"{text}: {seen.text}{alone}." if seen.text else f"Inconclusive: {why.text}."
        return Text(told, (*values, *seen.values))
    shown, numbers = _ratio("B {}× as fast as A", ratio)
    return Text(f"{text}: {shown}: {seen.text}.", (*values, *numbers, *seen.values))


def _without_interval(a: Series | None, b: Series | None) -> str:
    """Why two means of steps are told without an interval: there are fewer than LEAST."""
    if a is None or b is None:
        return ""
    carrying = {1: "one step carries", 2: "two steps carry"}[min(len(a.times), len(b.times))]
    return f", without an interval: {carrying} none"


def _ratio(words: str, ratio: Ratio) -> tuple[str, tuple[Value, ...]]:
    """Words in which `{}×` is the ratio; one that would be told as 1× is not told."""
    numbers: tuple[float, ...] = (ratio.estimate, ratio.low, ratio.high)
    if abs(ratio.estimate - 1) < _EQUAL:
        words, numbers = words.replace("{}× ", ""), numbers[1:]
    return f"{words} (95 % interval {{}}–{{}})", tuple(Value(number, None) for number in numbers)


def _sentence(text: str, values: tuple[Value, ...], then: Text) -> Text:
    return Text(f"{text}: {then.text}.", (*values, *then.values))


def _steps(a: Series | None, b: Series | None) -> Text:
    """The mean steps of both sides, as far as there are any."""
    means = [None if one is None else Value(one.phases.whole, "ns") for one in (a, b)]
    match means:
        case [Value() as one, Value() as two]:
            return Text("{} → {} per step", (one, two))
        case [Value() as one, None]:
            return Text("{} per step in A", (one,))
        case [None, Value() as two]:
            return Text("{} per step in B", (two,))
        case _:
            return Text("")


def _recorded(comparison: Comparison) -> Text | None:
    """What was recorded of a rank on both sides, where steps are not marked; else None."""
    whole = comparison.breakdown or comparison.device
    if comparison.by_step or whole is None or comparison.speed.ratio:
        return None
    return Text("{} → {} recorded of a rank", (Value(whole.a, "ns"), Value(whole.b, "ns")))


def _rate(series: Series) -> float:
    return 0.0 if series.samples is None else float(series.samples.sum() / series.times.sum() * 1e9)


def _size(series: Series) -> float:
    return 0.0 if series.samples is None else round(float(series.samples.mean()), 1)
