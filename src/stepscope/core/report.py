"""What a report is made of. Sections build these blocks, renderers draw them, and there are no others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from stepscope.core.finding import Finding
from stepscope.core.run import Run
from stepscope.core.schema import Unit

__all__ = ["Bar", "Bars", "Block", "Bound", "FindingBlock", "Section", "Table", "Text", "Value", "Verdict"]

Bound = Literal["input", "host", "device", "communication", "memory", "balanced", "unknown"]
Cell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Value:
    """A number with its unit; None as unit means a plain number such as a step's."""

    value: float
    unit: Unit | None


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence; each `{}` in `text` stands for the value of the same position."""

    text: str
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limits the run, its share of step time (None if unknown), and the mean step it is a share of."""

    bound: Bound
    share: float | None
    step_ns: float | None
    why_unknown: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; `columns` are (heading, unit), unit None for names."""

    title: str
    columns: tuple[tuple[str, Unit | None], ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of a stacked bar."""

    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Bars:
    """One stacked bar: parts of one whole, in drawing order, all in `unit`."""

    title: str
    unit: Unit
    parts: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class FindingBlock:
    """A finding and the name of the rule that made it."""

    rule: str
    finding: Finding


Block = Text | Verdict | Table | Bars | FindingBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a report. `order` sorts the sections; `build` may raise MissingData."""

    title: str
    order: int
    build: Callable[[Run], list[Block]]
