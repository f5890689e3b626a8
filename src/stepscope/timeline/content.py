"""What a timeline is made of: tracks of spans, of a value over time, or of the share of time something is busy."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from stepscope.core.intervals import Spans as Set
from stepscope.core.schema import Unit
from stepscope.timeline.lanes import Ints, SpanLane

__all__ = ["DERIVED", "Category", "Content", "Kind", "Series", "Share", "Spans", "Stretch", "Track"]

Floats = npt.NDArray[np.float64]
Kind = Literal["steps", "path", "stream", "gaps", "counter", "host", "worker"]
Category = Literal[
    "step", "operator", "annotation", "runtime", "python", "compute", "communication", "memory", "sync", "input",
    "waiting", "other",
]  # fmt: skip
"""What spans are colored by."""
DERIVED: frozenset[Kind] = frozenset(("path", "gaps"))
"""Kinds of tracks that analyses give: a search for names, which are those of other tracks, leaves them out."""


Stretch = tuple[int, int]
"""Start and end, in ns on the clock of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """A row of the timeline. Times are ns on the clock of the run; `id` names it, also in links.

    `group` is the process that it is drawn below. `lanes` is how many rows of spans it has, 0 for a value over time.
    `count` are its spans, or samples. `unit` is that of the value; `means`: it is the mean of each pixel, else its
    lowest and highest value in it. `recorded` are the stretches in which something could be recorded, in order; None:
    at all times.
    """

    id: str
    kind: Kind
    rank: int | None
    pid: str | None
    group: str
    name: str
    lanes: int = 0
    count: int
    first: int
    last: int
    unit: Unit | str | None = None
    means: bool = False
    recorded: tuple[Stretch, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Spans of a track; `names` and `categories` by number of name. `table` is the table or analysis of their rows."""

    track: Track
    lanes: tuple[SpanLane, ...]
    names: tuple[str, ...]
    categories: tuple[Category, ...]
    table: str


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A value over time: each holds from its time to the next, the last one to the end of the track; NaN: unknown."""

    track: Track
    time: Ints
    value: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """The share of time that lies in a set of spans; `before` is the time of the set before each."""

    track: Track
    busy: Set
    before: Ints


Content = Spans | Series | Share
