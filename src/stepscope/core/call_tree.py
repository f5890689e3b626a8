"""Trees of calls, in which every node is the time of its own and that of the nodes below it, to the nanosecond."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["CallTree", "apportioned", "call_tree", "cut", "subtree_sums"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class CallTree:
    """Nodes depth first, each before those below it; the first is the root.

    `label` says what a node is of, `parent` is its parent (-1 of the root), `own` the time of its own in ns, `total`
    with all below it, and `calls` is how often it was called, or seen.
    """

    label: Ints
    parent: Ints
    depth: Ints
    own: Ints
    total: Ints
    calls: Ints


def call_tree(*, label: Ints, parent: Ints, own: Ints, calls: Ints, rank: Ints | None = None) -> CallTree:
    """A tree of nodes given in any order in which parents come before their children; the first is the root.

    Siblings come by `rank`, where given, then the larger ones first, then by label.
    """
    total = subtree_sums(parent, own)
    rank = np.zeros(len(label), dtype=np.int64) if rank is None else rank
    below: dict[int, list[int]] = {}
    above = parent.tolist()
    for node in np.lexsort((label, -total, rank)).tolist():
        below.setdefault(above[node], []).append(node)
    order: list[int] = []
    waiting = [0] if len(label) else []
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting.extend(reversed(below.get(node, ())))
    rows = np.array(order, dtype=np.int64)
    place = np.full(len(label) + 1, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    moved = place[parent[rows]]
    return CallTree(label[rows], moved, _depths(moved), own[rows], total[rows], calls[rows])


def _depths(parent: Ints) -> Ints:
    """How many nodes are around each; parents come before their children."""
    depth = np.zeros(len(parent), dtype=np.int64)
    for node, above in enumerate(parent.tolist()):
        if above >= 0:
            depth[node] = depth[above] + 1
    return depth


def subtree_sums(parent: Ints, own: Ints) -> Ints:
    """For each node its own value and those of all nodes below it; parents come before their children."""
    total, above = own.tolist(), parent.tolist()
    for node in range(len(total) - 1, 0, -1):
        if above[node] >= 0:
            total[above[node]] += total[node]
    return np.array(total, dtype=np.int64)


def apportioned(parts: Ints, whole: int) -> Ints:
    """Whole numbers in proportion to `parts`, which are not negative, that add up to `whole`; zeros if all parts are.

    Each is less than 1 off its exact share: rounding begins where that of the one before it ended.
    """
    ends = [0]
    for part in parts.tolist():
        ends.append(ends[-1] + part)
    if not ends[-1]:
        return np.zeros(len(parts), dtype=np.int64)
    rounded = [(2 * end * whole + ends[-1]) // (2 * ends[-1]) for end in ends]  # exact, however large the numbers
    found: Ints = np.diff(rounded).astype(np.int64)
    return found


def cut(tree: CallTree, most: int) -> Bools:
    """Which nodes remain if the tree shall have at most so many: the largest, and never one without its parent."""
    by_size = np.lexsort((np.arange(len(tree.total)), tree.depth, -tree.total))
    kept = np.zeros(len(tree.total), dtype=np.bool_)
    kept[by_size[:most]] = True
    return kept
