"""What a rule reports. Plain data: no markup, no formatted numbers."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from stepscope.core.run import Run
from stepscope.core.schema import Unit
from stepscope.core.synth import Synth

__all__ = [
    "Advice",
    "Cause",
    "Confidence",
    "Evidence",
    "Finding",
    "Gain",
    "Place",
    "Pool",
    "Rule",
    "Title",
    "Value",
    "at",
    "base_name",
]

Cause = Literal["data-reading", "configuration", "operator", "scheduling", "model"]
_SEPARATORS = r"[\\/]"
Confidence = Literal["structural", "benchmarked", "table"]
Pool = Literal["data-wait", "host", "device", "communication", "copies", "repeated-steps"]
"""Time of a step that several findings may save: what one of them takes away, the others cannot.

`repeated-steps` is no part of a step: whole steps are saved, and those that are left are as long as before.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in the user's code.

    `share` is its part of `of`, such as "sampled loading time" or "the step"; None: not measured. `around` are source
    lines kept with the run, as they were written, from line `first` on; empty: none were kept.
    """

    file: str
    line: int
    symbol: str = ""
    text: str = ""
    share: float | None = None
    of: str = ""
    first: int = 0
    around: tuple[str, ...] = ()


def at(place: Place | None) -> str:
    """A place behind words of advice: ` (train.py:41)`; empty for None."""
    return "" if place is None else f" ({base_name(place)}:{place.line})"


def base_name(place: Place) -> str:
    """The file's name without its folders, of any system that a trace may come from."""
    return re.split(_SEPARATORS, place.file)[-1]


@dataclass(frozen=True, slots=True)
class Value:
    """A number with its unit; None as unit means a plain number such as a step's."""

    value: float
    unit: Unit | None


@dataclass(frozen=True, slots=True)
class Title:
    """Who, what and how much; it stands alone in a list. Each `{}` in `words` is the name, line or figure at its place.

    Two findings of a kind have the same `words`, whatever the figures of their runs.
    """

    words: str
    figures: tuple[str | Place | Value, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One measured value, its unit, and the analysis whose table it can be checked in.

    A value is a mean unless the label says otherwise. `share` is its part of the mean step, `of` the whole that it
    belongs to, in the same unit: `1.96 of 2` cores. `step` is the number of a step in which it is seen; None: it is of
    all steps.
    """

    label: str
    value: float
    unit: Unit
    source: str
    step: int | None = None
    share: float | None = None
    of: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Predicted time saved per step, in ns averaged over all steps, as a range.

    `step_ns` is the mean step on the clock that the range is counted on (host, or device), or all that was recorded
    where no steps are marked: nothing saves more than it. `basis` names the reasoning. `confidence`: structural
    (follows from the shape of the run), benchmarked (measured on this kind of machine) or table (from published
    figures). `pool` is the time that it comes out of; None: that of the finding's cause.

    `curve` is of a fix that is new code, of which nobody knows yet how fast it will be: pairs of k, and ns saved where
    the code becomes k times as fast. The range is then that of its ceiling, without the code.
    """

    low_ns: int
    high_ns: int
    step_ns: int
    basis: str
    confidence: Confidence
    pool: Pool | None = None
    curve: tuple[tuple[float, int], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.low_ns <= self.high_ns <= self.step_ns:
            raise ValueError(
                f"a gain is a range of time saved of a step, not [{self.low_ns}, {self.high_ns}] of {self.step_ns}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing to change, and the code to write where there is some: Python, or a line for the shell."""

    text: str
    code: str = ""
    language: Literal["python", "shell"] = "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem with its evidence. No severity: findings are ranked by gain.

    `trial` is the stepscope command that tries the advice; empty: there is none. `replaces` names rules whose advice is
    another way to save the same time: what they say of the same ranks is left out where this one saves nearly as much.
    """

    title: Title
    cause: Cause
    evidence: tuple[Evidence, ...]
    gain: Gain | None
    advice: tuple[Advice, ...]
    ranks: tuple[int, ...]
    where: tuple[Place, ...] = ()
    trial: str = ""
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A named check. Its page is the docstring of the module that defines it.

    `check` yields findings, or raises MissingData if the run cannot answer. `example` writes one small run with the
    problem and, when its second argument is true, the same run with the problem fixed. `explains` names a rule that
    finds the same problem without its reason: what that one says of the same ranks is left out.
    """

    check: Callable[[Run], Iterator[Finding]]
    example: Callable[[Synth, bool], None]
    explains: str = ""
