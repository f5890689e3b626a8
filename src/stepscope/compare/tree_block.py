"""The calls of both runs as one tree for a page, from the rows that name each call by its path.

A row holds a call's own time; here each has the time with all inside it as well, which adds up from the leaves.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from stepscope.compare.changes import Changes
from stepscope.compare.tree_changes import PathChange
from stepscope.core.report import ChangedCall, ChangeTree

__all__ = ["tree_block"]

_MOST = 1500  # calls: of more, a page would be slow to open, and nobody reads them
_Kind = Literal["both", "vanished", "appeared"]
_Key = tuple[tuple[str, ...], _Kind]


@dataclass(slots=True, eq=False)
class _Node:
    """A call: sums by side (A, B); a side on which it never is has None."""

    name: str
    sides: tuple[bool, bool]
    calls: list[float] = field(default_factory=lambda: [0.0, 0.0])
    own: list[int] = field(default_factory=lambda: [0, 0])
    whole: list[int] = field(default_factory=lambda: [0, 0])
    inside: "list[_Node]" = field(default_factory=list)

    @property
    def change(self) -> int:
        return self.whole[1] - self.whole[0]


def tree_block(title: str, changes: Changes) -> ChangeTree | None:
    """The tree, each call before those inside it, the largest change first; None without calls."""
    tops = _nested([row for row in changes.rows if isinstance(row, PathChange)])
    if not tops:
        return None
    whole = [sum(side) for side in zip(*(node.whole for node in tops), strict=True)]
    assert whole == [changes.a, changes.b]
    rows = list(_walk(tops, 0))
    kept = _largest(rows, _MOST)
    return ChangeTree(title, "ns", tuple(_row(node, depth) for depth, node in kept), len(rows) - len(kept))


def _nested(rows: Sequence[PathChange]) -> list[_Node]:
    """The outermost calls. Calls whose rows differ only in how their names were matched are one."""
    nodes: dict[_Key, _Node] = {}
    for row in sorted(rows, key=lambda row: len(row.path)):
        node = _node(nodes, row.path, _kind(row))
        for side, (calls, own) in enumerate(((row.calls_a, row.a), (row.calls_b, row.b))):
            node.calls[side] += calls or 0
            node.own[side] += own or 0
    tops = [node for (path, _), node in nodes.items() if len(path) == 1]
    for (path, _), node in sorted(nodes.items(), key=lambda item: -len(item[0][0])):
        node.whole = [one + other for one, other in zip(node.whole, node.own, strict=True)]
        if len(path) > 1:
            around = nodes[path[:-1], "both"]
            around.whole = [one + other for one, other in zip(around.whole, node.whole, strict=True)]
    return _sorted(tops)


def _node(nodes: dict[_Key, _Node], path: tuple[str, ...], kind: _Kind) -> _Node:
    """The call of a path; one around it that has no row of its own is made, without time."""
    if (path, kind) not in nodes:
        nodes[path, kind] = node = _Node(path[-1], (kind != "appeared", kind != "vanished"))
        if len(path) > 1:
            _node(nodes, path[:-1], "both").inside.append(node)
    return nodes[path, kind]


def _kind(row: PathChange) -> _Kind:
    return cast("_Kind", row.matched) if row.matched in ("vanished", "appeared") else "both"


def _sorted(nodes: Iterable[_Node]) -> list[_Node]:
    return sorted(nodes, key=lambda node: (-abs(node.change), -max(node.whole), node.name))


def _walk(nodes: Iterable[_Node], depth: int) -> Iterator[tuple[int, _Node]]:
    """Depth and call, without recursion: stacks can be deep."""
    waiting = [(depth, node) for node in reversed(list(nodes))]
    while waiting:
        depth, node = waiting.pop()
        yield depth, node
        waiting += [(depth + 1, one) for one in reversed(_sorted(node.inside))]


def _largest(rows: list[tuple[int, _Node]], most: int) -> list[tuple[int, _Node]]:
    """So many rows at most: those in or inside which the largest own changes are, with all around them."""
    if len(rows) <= most:
        return rows
    above: list[int] = []
    weight = [abs(node.own[1] - node.own[0]) for _, node in rows]
    parents = []
    for at, (depth, _) in enumerate(rows):
        del above[depth:]
        parents.append(above[-1] if above else -1)
        above.append(at)
    for at in range(len(rows) - 1, -1, -1):
        if parents[at] >= 0:
            weight[parents[at]] = max(weight[parents[at]], weight[at])
    chosen = sorted(range(len(rows)), key=lambda at: (-weight[at], at))[:most]
    return [rows[at] for at in sorted(chosen)]


def _row(node: _Node, depth: int) -> ChangedCall:
    calls, own, whole = (
        tuple(value if there else None for value, there in zip(values, node.sides, strict=True))
        for values in (node.calls, node.own, node.whole)
    )
    return ChangedCall(
        depth,
        node.name,
        cast("tuple[float | None, float | None]", calls),
        cast("tuple[int | None, int | None]", own),
        cast("tuple[int | None, int | None]", whole),
    )
