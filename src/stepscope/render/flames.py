"""Flame graphs where only text can be shown: the paths that take most of the time."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from stepscope.core.report import Flame, FrameKind, Text, Value
from stepscope.render.format import plain

__all__ = ["Box", "HeavyPath", "boxes", "heaviest", "unlisted"]

_LISTED = 14  # paths: with title and headings half a screen
_LEAST = 0.01  # of the root: what is less changes no decision


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavyPath:
    """A node, or nodes of which each is all of the one above; `depth` counts the listed paths above it.

    `last` is the position of the innermost of the nodes, whose own time is `own`; `nodes` is how many they are.
    """

    name: str
    depth: int
    total: int
    share: float
    own: int
    last: int
    nodes: int


def heaviest(flame: Flame) -> list[HeavyPath]:
    """The largest paths, each below the one that holds it."""
    children, whole = _below(flame), flame.nodes[0].total if flame.nodes else 0
    found = [path for path in _paths(flame, children) if path.total >= _LEAST * whole and path.total]
    by_size = sorted(range(len(found)), key=lambda at: (-found[at].total, found[at].depth, at))
    return [found[at] for at in sorted(by_size[:_LISTED])]


def unlisted(flame: Flame) -> Text | None:
    """How many nodes `heaviest` leaves out, and where they are; None if it leaves out none."""
    left = len(flame.nodes) - sum(path.nodes for path in heaviest(flame))
    if not left:
        return None
    words = "smaller frame is" if left == 1 else "smaller frames are"
    return Text(f"{{}} {words} not listed: `stepscope show {flame.source} PATH`", (Value(left, "count"),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A node as it is drawn: `left` and `width` are shares of the root, `row` counts from the root, which is 0."""

    name: str
    kind: FrameKind
    row: int
    left: float
    width: float
    total: int


def boxes(flame: Flame) -> list[Box]:
    """All nodes, each below its parent and beside its siblings; time of a node's own is free space at the right."""
    whole = flame.nodes[0].total if flame.nodes else 0
    drawn: list[Box] = []
    taken: list[int] = []  # of each node, by the children that came so far
    starts: list[int] = []
    for node in flame.nodes:
        start, row = 0, 0
        if node.parent >= 0:
            start, row = starts[node.parent] + taken[node.parent], drawn[node.parent].row + 1
            taken[node.parent] += node.total
        starts.append(start)
        taken.append(0)
        frame = flame.frames[node.frame]
        left, width = (start / whole, node.total / whole) if whole else (0.0, 0.0)
        drawn.append(Box(name=frame.name, kind=frame.kind, row=row, left=left, width=width, total=node.total))
    return drawn


def _below(flame: Flame) -> dict[int, list[int]]:
    """The positions of the nodes below each node."""
    children: dict[int, list[int]] = defaultdict(list)
    for at, node in enumerate(flame.nodes):
        if node.parent >= 0:
            children[node.parent].append(at)
    return children


def _paths(flame: Flame, children: dict[int, list[int]]) -> Iterator[HeavyPath]:
    """All nodes depth first; one that is all of its parent stands on the parent's line."""
    whole = flame.nodes[0].total if flame.nodes else 0
    waiting = [(0, 0)] if flame.nodes else []
    while waiting:
        at, depth = waiting.pop()
        chain = [at]
        while len(children[chain[-1]]) == 1 and not flame.nodes[chain[-1]].own:
            chain += children[chain[-1]]
        last = flame.nodes[chain[-1]]
        share = last.total / whole if whole else 0.0
        yield HeavyPath(
            name=_name(flame, chain), depth=depth, total=last.total, share=share, own=last.own, last=chain[-1],
            nodes=len(chain),
        )  # fmt: skip
        waiting.extend((child, depth + 1) for child in reversed(children[chain[-1]]))


def _name(flame: Flame, chain: list[int]) -> str:
    names = [plain(flame.frames[flame.nodes[at].frame].name) for at in chain]
    if len(names) > 3:
        names = [names[0], f"{len(names) - 2} more", names[-1]]
    return " › ".join(names)
