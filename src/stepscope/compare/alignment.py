"""Two trees of calls laid over each other: which call of the one is which of the other.

The roots are alike. The calls inside two alike calls are aligned in order, by longest common subsequences: of those
with the same names and shapes that hold the same calls too, then, between two pairs, of the same names and shapes, at
last of the same names. Of the rest, calls of one name are alike in whatever order they come, also where names differ by
the numbers of instances, or by vendor. Marks (of the user, of a framework) that have no partner are looked through, if
calls are left on both sides.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from stepscope.compare.alignable_tree import AlignableTree, alignable_tree, digests, preorder
from stepscope.compare.names import call_name
from stepscope.compare.sequences import Pairs, common

__all__ = ["Union", "summed", "united"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Rows = list[int]


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    """The calls of two trees, alike ones once: `at_a` and `at_b` are their rows in `tree`, whose figures are sums.

    `shortened` are the rows whose names differ by numbers of instances or arguments.
    """

    tree: AlignableTree
    at_a: Ints
    at_b: Ints
    shortened: Bools


def summed(trees: Iterable[AlignableTree]) -> AlignableTree:
    """One tree for all (one or more), with sums of the figures; those that are alike are added without a search."""
    alike: dict[int, AlignableTree] = {}
    for tree in trees:
        known = alike.get(int(tree.shape[0]))
        alike[int(tree.shape[0])] = replace(known, figures=known.figures + tree.figures) if known else tree
    return reduce(lambda a, b: united(a, b).tree, alike.values())


def united(a: AlignableTree, b: AlignableTree) -> Union:
    """Lay two trees over each other. A call that is in B only comes after the pair before it."""
    partner, parent_a, parent_b = _partners(_Side.of(a), _Side.of(b))
    fresh, count = np.flatnonzero(partner < 0), len(a.parent)
    at_b = partner.copy()
    at_b[fresh] = count + np.arange(len(fresh))
    above = np.where(parent_b < 0, -1, at_b[parent_b])
    parent = np.concatenate((parent_a, above[fresh]))
    after = np.concatenate((np.arange(count), _pair_before(above, partner)[fresh]))
    # Rows of A have their own place; those of B follow a row of A, in their own order.
    place = preorder(parent, np.lexsort((np.concatenate((np.full(count, -1), fresh)), after, parent)))
    return _union(a, b, np.where(parent < 0, -1, place[parent]), place, place[at_b])


def _union(a: AlignableTree, b: AlignableTree, parent: Ints, place: Ints, at_b: Ints) -> Union:
    """The rows of A, and those of B that are fresh, at their places."""
    at_a, rows = place[: len(a.parent)], len(place)
    names = {name: number for number, name in enumerate(dict.fromkeys((*a.names, *b.names)))}
    label_a, label_b, label = (np.zeros(rows, dtype=np.int64) for _ in range(3))
    label_a[at_a], label_b[at_b] = a.label, np.array([names[name] for name in b.names])[b.label]
    in_a, in_b = (np.zeros(rows, dtype=np.bool_) for _ in range(2))
    in_a[at_a], in_b[at_b] = True, True
    shortened = in_a & in_b & (label_a != label_b)
    label = np.where(in_a, label_a, label_b)
    for row in np.flatnonzero(shortened):
        short = call_name(a.names[label_a[row]])
        label[row] = names.setdefault(short, len(names))
    inputs, mark = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.bool_)
    figures, parents = np.zeros((rows, a.figures.shape[1]), dtype=np.int64), np.empty(rows, dtype=np.int64)
    for tree, at in ((b, at_b), (a, at_a)):
        inputs[at], mark[at] = tree.inputs, tree.mark
        figures[at] += tree.figures
    parents[place] = parent
    return Union(alignable_tree(tuple(names), label, inputs, mark, parents, figures), at_a, at_b, shortened)


def _pair_before(above: Ints, partner: Ints) -> Ints:
    """For each row of B the row of A that is alike to the last sibling before it that has one; -1 for none."""
    order = np.argsort(above, kind="stable")
    paired = partner[order] >= 0
    begins = np.searchsorted(above[order], above[order])
    last = np.maximum.accumulate(np.where(paired, np.arange(len(order)), -1))
    before = np.empty(len(order), dtype=np.int64)
    before[order] = np.where(last >= begins, partner[order][last], -1)
    return before


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """A tree as lists, in which single rows are looked up fast."""

    key: list[int]
    whole: list[int]
    exact: list[int]
    short: list[int]
    shape: list[int]
    size: list[int]
    mark: list[bool]
    parent: Ints

    @classmethod
    def of(cls, tree: AlignableTree) -> "_Side":
        inputs = tree.inputs.astype(np.uint64) << np.uint64(32)
        short = digests(tuple(map(call_name, tree.names)))[tree.label]
        return cls(
            tree.key.tolist(), (tree.shape ^ inputs).tolist(), (tree.key ^ inputs).tolist(), short.tolist(),
            tree.shape.tolist(), tree.size.tolist(), tree.mark.tolist(), tree.parent,
        )  # fmt: skip

    def inside(self, row: int) -> Rows:
        """The rows directly inside one."""
        found, at, end = [], row + 1, row + self.size[row]
        while at < end:
            found.append(at)
            at += self.size[at]
        return found

    def opened(self, rows: Rows) -> Rows:
        """The rows, in the place of each mark what is directly inside it."""
        return [inner for row in rows for inner in (self.inside(row) if self.mark[row] else [row])]


def _partners(a: _Side, b: _Side) -> tuple[Ints, Ints, Ints]:
    """For each row of B the row of A that is alike, or -1; and the parents of both, of pairs those that are a pair."""
    partner, parent_a, parent_b = np.full(len(b.key), -1, dtype=np.int64), a.parent.copy(), b.parent.copy()
    todo = [(0, 0)]
    while todo:
        one, two = todo.pop()
        if a.shape[one] == b.shape[two]:
            partner[two : two + b.size[two]] = np.arange(one, one + a.size[one])
            continue
        partner[two] = one
        for pair in _aligned(a, b, a.inside(one), b.inside(two)):
            parent_a[pair[0]], parent_b[pair[1]] = one, two
            todo.append(pair)
    return partner, parent_a, parent_b


def _aligned(a: _Side, b: _Side, rows_a: Rows, rows_b: Rows) -> Pairs:
    """Which of the rows are alike."""
    if [a.key[row] for row in rows_a] == [b.key[row] for row in rows_b]:
        return list(zip(rows_a, rows_b, strict=True))
    pairs = _in_order(a, b, rows_a, rows_b)
    for keys_a, keys_b in ((a.exact, b.exact), (a.key, b.key), (a.short, b.short)):
        rows_a, rows_b = _left(rows_a, rows_b, pairs)
        pairs += _anywhere(keys_a, keys_b, rows_a, rows_b)
    rows_a, rows_b = _left(rows_a, rows_b, pairs)
    if rows_a and rows_b:
        inner = a.opened(rows_a), b.opened(rows_b)
        if inner != (rows_a, rows_b):
            pairs += _aligned(a, b, *inner)
    return pairs


def _in_order(a: _Side, b: _Side, rows_a: Rows, rows_b: Rows) -> Pairs:
    """Pairs of rows in order: those alike with all inside them, then in the gaps by name and shapes, then by name."""
    pairs: Pairs = []
    for keys_a, keys_b in ((a.whole, b.whole), (a.exact, b.exact), (a.key, b.key)):
        pairs = sorted(
            [*pairs, *(pair for gap in _gaps(rows_a, rows_b, pairs) for pair in _common(keys_a, keys_b, *gap))]
        )
    return pairs


def _gaps(rows_a: Rows, rows_b: Rows, pairs: Pairs) -> Iterator[tuple[Rows, Rows]]:
    """What lies between each two pairs, where that is something on both sides."""
    place_a, place_b = ({row: place for place, row in enumerate(rows)} for rows in (rows_a, rows_b))
    i = j = 0
    ends = [(place_a[one], place_b[two]) for one, two in pairs]
    for end_i, end_j in (*ends, (len(rows_a), len(rows_b))):
        if i < end_i and j < end_j:
            yield rows_a[i:end_i], rows_b[j:end_j]
        i, j = end_i + 1, end_j + 1


def _common(keys_a: list[int], keys_b: list[int], rows_a: Rows, rows_b: Rows) -> Pairs:
    pairs = common([keys_a[row] for row in rows_a], [keys_b[row] for row in rows_b])
    return [(rows_a[i], rows_b[j]) for i, j in pairs]


def _left(rows_a: Rows, rows_b: Rows, pairs: Pairs) -> tuple[Rows, Rows]:
    """The rows that are in no pair."""
    paired_a, paired_b = {one for one, _ in pairs}, {two for _, two in pairs}
    return [row for row in rows_a if row not in paired_a], [row for row in rows_b if row not in paired_b]


def _anywhere(keys_a: list[int], keys_b: list[int], rows_a: Rows, rows_b: Rows) -> Pairs:
    """The first row of a key with the first of it on the other side, and so on."""
    waiting: dict[int, Rows] = {}
    for row in reversed(rows_a):
        waiting.setdefault(keys_a[row], []).append(row)
    return [(found.pop(), row) for row in rows_b if (found := waiting.get(keys_b[row]))]
