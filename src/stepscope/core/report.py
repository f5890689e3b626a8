"""What a report is made of. Sections build these blocks, renderers draw them, and there are no others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from stepscope.core.finding import Finding, Value
from stepscope.core.run import Run
from stepscope.core.schema import Unit

__all__ = [
    "WORTH_TELLING",
    "Bar",
    "Bars",
    "Block",
    "Bound",
    "ChangeTree",
    "ChangedCall",
    "FindingBlock",
    "Flame",
    "Frame",
    "FrameKind",
    "Group",
    "Heatmap",
    "Interval",
    "Lane",
    "Lanes",
    "Line",
    "Lines",
    "Node",
    "Overlap",
    "Roof",
    "Roofline",
    "RooflinePoint",
    "Section",
    "Table",
    "Text",
    "Value",
    "Verdict",
]

WORTH_TELLING = 0.01
"""Of the step: a smaller wait for cores is named by no headline and no bar, as it changes no decision."""

Bound = Literal["input", "host", "device", "communication", "memory", "balanced", "unknown"]
Cell = str | float | int | None
Group = Literal[
    "overview", "input", "operators", "kernels", "modules", "memory", "distributed", "idle", "timeline", "comparison",
    "quality",
]  # fmt: skip
"""Headings under which the page lists sections."""

FrameKind = Literal[
    "root", "phase", "user", "library", "module", "operator", "annotation", "call", "unknown", "rest",
]  # fmt: skip
"""What a frame of a flame graph is; `rest` stands for smaller ones that are not listed."""


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence; each `{}` in `text` stands for the value of the same position."""

    text: str
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limits the run, its share of step time (None if unknown), and the mean step in ns it is a share of.

    Share and step are those of `rank`; `ranks` are all that the limit holds for to a like extent, of the `of_ranks`
    that were judged. `steps` is the number of steps that the mean is over: 0 if the source marks none and `step_ns` is
    all of its time, None if unknown. `on_cpu`: no accelerator computes in this run. `opened` of the `world_size` ranks
    of the job were read, 0 where that is unknown. `share_unrecorded` is the share without what the profiler cost, None
    where the step was timed without one; `likely` says that the limit hangs by that cost.
    `gaps` are the longest times (ns) without device work, and what the host did in each, where a few make up most of
    the idle time of a trace without steps.
    `core_wait` is the part of the share in which the training process is ready but has no core: of an input share, as
    its loader's workers have them, of a device share on the CPU, whoever has them.
    `unexplained` is the share of the step in which the device idles and the trace shows no reason.
    `late`: the other ranks wait for this one, which computes longer.
    `next_step` is what to record, or to do, so that more is known; empty where nothing is missing.
    """

    bound: Bound
    share: float | None
    step_ns: float | None
    why_unknown: str = ""
    rank: int | None = None
    ranks: tuple[int, ...] = ()
    of_ranks: int = 0
    steps: int | None = None
    on_cpu: bool = False
    opened: int = 0
    world_size: int = 0
    share_unrecorded: float | None = None
    likely: bool = False
    gaps: tuple[tuple[float, str], ...] = ()
    core_wait: float = 0.0
    unexplained: float = 0.0
    late: bool = False
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Findings that save the same time, by their positions from 0, and what they save together at most.

    `most_ns` is a part of `step_ns`, the mean step (or all recorded time, where no steps are marked), both in ns.
    """

    findings: tuple[int, ...]
    most_ns: int
    step_ns: int


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; `columns` are (heading, unit), unit None for names.

    `order` is the positions of all columns, most useful first, of a table whose last ones may be left out where room is
    short; empty: all are shown. `meanings` says of each column what it means, `source` names the analysis whose table
    has all the rows; both may be empty. `change` is the position of a column of differences, largest first, which a
    page draws as bars from zero; None: there is none. `enough` is how many rows do where room is short, 0: all.
    """

    title: str
    columns: tuple[tuple[str, Unit | None], ...]
    rows: tuple[tuple[Cell, ...], ...]
    order: tuple[int, ...] = ()
    meanings: tuple[str, ...] = ()
    source: str = ""
    change: int | None = None
    enough: int = 0


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of a stacked bar."""

    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Bars:
    """One stacked bar: parts of one whole, in drawing order, all in `unit`.

    `whole` is what the full width stands for, so that bars of one scale can be set above each other; None: their sum.
    """

    title: str
    unit: Unit
    parts: tuple[Bar, ...]
    whole: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: points (x, y) in order of x; y is None where nothing was recorded."""

    label: str
    points: tuple[tuple[float, float | None], ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """Curves over one axis, all in `unit`; with `stacked` they are parts of a whole and drawn on top of each other.

    `x` names the axis, such as step, in `x_unit` (None: plain numbers). `limits` are levels to compare with, such as
    the capacity of a memory. `began` is the moment that an axis of time counts from, in ns on the clock of traces;
    None: not known, or no axis of time. `opens` names the analysis that tells more of a range of time, if there is one;
    `origin` is where x is 0, in ns since the first event or step of the run.
    """

    title: str
    x: str
    x_unit: Unit | None
    unit: Unit
    lines: tuple[Line, ...]
    stacked: bool = False
    limits: tuple[Bar, ...] = ()
    began: int | None = None
    opens: str = ""
    origin: int = 0


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A value for each row and column, None where nothing was recorded: `values[row][column]`, all in `unit`.

    `x` names the columns, whose numbers are `xs`; `y` names the rows, whose numbers are `ys`.
    """

    title: str
    x: str
    y: str
    unit: Unit
    xs: tuple[int, ...]
    ys: tuple[int, ...]
    values: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Roof:
    """What a device does at most: so many FLOP/s in a precision, below it what its memory feeds."""

    label: str
    peak: float


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """Work of one kind: FLOP per byte of least traffic, FLOP/s reached, and the ns that it took in all."""

    label: str
    intensity: float
    speed: float
    total: int


@dataclass(frozen=True, slots=True)
class Roofline:
    """How near work comes to the roofs of a device, on logarithmic axes. `bandwidth` is that of its memory, bytes/s."""

    title: str
    bandwidth: float
    roofs: tuple[Roof, ...]
    points: tuple[RooflinePoint, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """What a node of a flame graph is of; file is empty and line 0 where it is no place in Python code."""

    name: str
    kind: FrameKind
    file: str = ""
    line: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A place in a call tree: positions of its frame and of its parent (-1 of the root), and its figures.

    `total` is `own` and the totals of the nodes below it; `calls` is how often it was called, or seen.
    """

    frame: int
    parent: int
    own: int
    total: int
    calls: int


@dataclass(frozen=True, slots=True)
class Flame:
    """A call tree, depth first, all in `unit`. `counts` says what `calls` counts, in all of `steps` where not None.

    Nodes beyond those that are listed are summed up below their parent, in one of a frame of the kind `rest`. `note`
    says what the times are of; `source` names the analysis that has all nodes.
    """

    title: str
    unit: Unit
    frames: tuple[Frame, ...]
    nodes: tuple[Node, ...]
    counts: Literal["samples", "calls"]
    steps: int | None
    note: Text
    source: str


@dataclass(frozen=True, slots=True)
class Lane:
    """What somebody did over time: spans (start, end, what) in ns from the start of the block, in order, disjoint."""

    label: str
    spans: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class Lanes:
    """Lanes over one time of `length` ns, one below the other; `kinds` are all that is done, in order of the legend."""

    title: str
    length: int
    kinds: tuple[str, ...]
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio of speeds, B over A, and the interval that it lies in; 1 is no difference.

    `widened` are the ends when all that doubts allow is added, None without such doubts. `meaning` is the sentence that
    says whether it is a difference, `kind` the same in a word.
    """

    title: str
    estimate: float
    low: float
    high: float
    kind: Literal["faster", "slower", "same", "inconclusive"]
    meaning: str
    widened: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class ChangedCall:
    """A call of two runs: times by itself (`own`) and with all inside (`whole`), None on a side without it."""

    depth: int
    name: str
    calls: tuple[float | None, float | None]
    own: tuple[int | None, int | None]
    whole: tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class ChangeTree:
    """Calls of two runs laid over each other, each followed by those inside it, the largest change first.

    Times are in `unit`. `left_out` counts calls whose changes are too small for a page.
    """

    title: str
    unit: Unit
    rows: tuple[ChangedCall, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class FindingBlock:
    """A finding and the name of the rule that made it."""

    rule: str
    finding: Finding


Block = (
    Text | Verdict | Table | Bars | Lines | Heatmap | Lanes | Flame | Roofline | Interval | ChangeTree | FindingBlock
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a report. `order` sorts the sections; `build` may raise MissingData.

    `group` is the heading of the page's navigation under which it stands.
    """

    title: str
    order: int
    group: Group = "overview"
    build: Callable[[Run], list[Block]]
