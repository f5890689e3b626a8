"""Compare two runs: which is faster, how they were set up, where the difference lies, what was found in one only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stepscope.compare.breakdowns import Totals
from stepscope.compare.changes import Changes, divided_changes, listed_changes
from stepscope.compare.run_summary import Side
from stepscope.compare.sameness import is_one_recording
from stepscope.compare.settings import Setting
from stepscope.compare.tree_changes import tree_changes
from stepscope.compare.verdict import Outcome, Speed, judged, speed_of
from stepscope.core.finding import Finding, Title

__all__ = ["Comparison", "FoundChange", "compare"]

_Found = tuple[str, Finding]
_MAY_BE_NONE = ("collectives",)  # that a trace holds none of them is a fact about the job, not a gap of the recording


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundChange:
    """A problem by its rule and title, with its finding on each side; None where it was not found."""

    rule: str
    title: Title
    a: Finding | None
    b: Finding | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """Two runs, compared: differences are B less A. `one_recording`: both are one and the same.

    `settings` are those that differ, as (A, B). `phases` divide the steps that are compared; `device` and `breakdown`
    a traced step, or, where one side marks none (`by_step` false), all that was recorded; None where a side has none.
    `by_name` are by what they list, where both sides have it. `trees` are the trees of host calls laid over each
    other, by what their times are of: host, and device where both sides have any.
    """

    a: Side
    b: Side
    speed: Speed
    outcome: Outcome
    settings: Mapping[str, tuple[Setting, Setting]]
    by_step: bool
    phases: Changes | None
    device: Changes | None
    breakdown: Changes | None
    by_name: Mapping[str, Changes]
    trees: Mapping[str, Changes]
    findings: tuple[FoundChange, ...]
    one_recording: bool = False


def compare(a: Side, b: Side) -> Comparison:
    """Compare B with A."""
    speed, by_step = speed_of(a, b), bool(a.traced_steps and b.traced_steps)
    one = is_one_recording(a, b)
    device = _divided(a.device, b.device, by_step=by_step)
    breakdown = _divided(a.breakdown, b.breakdown, by_step=by_step)
    return Comparison(
        a=a,
        b=b,
        speed=speed,
        outcome=Outcome(kind="same", because=(), doubts=()) if one else judged(a, b, speed),
        settings={
            name: (a.settings[name], b.settings[name]) for name in a.settings if a.settings[name] != b.settings[name]
        },
        by_step=by_step,
        phases=divided_changes(speed.a.phases, speed.b.phases) if speed.a and speed.b else None,
        device=device,
        breakdown=breakdown,
        by_name=_by_name(a, b, breakdown or device, by_step=by_step),
        trees=tree_changes(a.calls, b.calls),
        findings=_findings(a, b),
        one_recording=one,
    )


def _divided(a: Totals | None, b: Totals | None, *, by_step: bool) -> Changes | None:
    if a is None or b is None or (by_step and not (a.steps and b.steps)):
        return None
    return divided_changes(a.per(step=by_step), b.per(step=by_step))


def _by_name(a: Side, b: Side, whole: Changes | None, *, by_step: bool) -> dict[str, Changes]:
    found = {}
    for what in (*a.by_name, *(what for what in b.by_name if what not in a.by_name)):
        sides = [side.by_name.get(what) for side in (a, b)]
        if not all(side or (what in _MAY_BE_NONE and whole) for side in sides):
            continue
        if by_step and not all(side is None or side.steps for side in sides):
            continue
        before, after = ({} if side is None else side.per(step=by_step) for side in sides)
        found[what] = listed_changes(before, after, (whole.a, whole.b) if whole else (0, 0))
    return found


def _findings(a: Side, b: Side) -> tuple[FoundChange, ...]:
    """Problems of A with those of B, matched by rule, title and place, then by rule in order of gain."""
    left, right = list(a.findings), list(b.findings)
    pairs: list[FoundChange] = []
    sames: tuple[Callable[[_Found], object], ...] = (_place, _rule)
    for key in sames:
        for one in list(left):
            two = next((other for other in right if key(one) == key(other)), None)
            if two is not None:
                left.remove(one)
                right.remove(two)
                pairs.append(FoundChange(rule=one[0], title=two[1].title, a=one[1], b=two[1]))
    pairs += [FoundChange(rule=rule, title=found.title, a=found, b=None) for rule, found in left]
    pairs += [FoundChange(rule=rule, title=found.title, a=None, b=found) for rule, found in right]
    return tuple(sorted(pairs, key=lambda pair: (-max(_most(pair.a), _most(pair.b)), pair.rule, pair.title.words)))


def _place(found: _Found) -> object:
    return found[0], found[1].title.words, found[1].where[:1]


def _rule(found: _Found) -> object:
    return found[0]


def _most(finding: Finding | None) -> int:
    return finding.gain.high_ns if finding and finding.gain else 0
