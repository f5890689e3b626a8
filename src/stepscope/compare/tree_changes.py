"""Where in the tree of calls two runs differ: each path with the time of the calls themselves, so that it is told once.

A call that one run has alone counts with all inside it, as it came or went as a whole. Then the rows add up to the
change of the whole exactly.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.compare.alignable_tree import AlignableTree, levels_of
from stepscope.compare.alignment import Union, united
from stepscope.compare.call_trees import OTHERS, CallTrees
from stepscope.compare.changes import Change, Changes, Match, by_difference, with_shares
from stepscope.compare.series import divided

__all__ = ["BETWEEN", "PathChange", "tree_changes"]

BETWEEN = " › "
"""Between the names of a path."""

_TIMES = {"device": 2, "host": 1}  # columns of the figures of a tree
_MATCHES: tuple[Match, ...] = ("name", "short name", "vanished", "appeared")
_PAIRED = 2  # matches before it have a call on both sides
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class PathChange(Change):
    """Calls of one path from the step down: `a` and `b` are their own time, the totals that with all inside them."""

    path: tuple[str, ...]
    total_a: int | None
    total_b: int | None


@dataclass(frozen=True, slots=True, eq=False)
class _Paths:
    """Paths, each after the one around it (`parent`, -1 for the root): number of its match, and its figures by side."""

    paths: list[tuple[str, ...]]
    match: list[int]
    parent: list[int]
    figures: tuple[Ints, Ints]


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Calls, own time and time with all inside of each path on one side, in the mean step or recording."""

    calls: list[float]
    own: list[int]
    total: list[int]


def tree_changes(a: CallTrees | None, b: CallTrees | None) -> dict[str, Changes]:
    """Changes of the paths by what their times are of: device, where both sides have any, and host.

    Nothing where a side has no tree, or where one of them alone marks steps: a step is not alike to a recording.
    """
    if a is None or b is None or bool(a.steps) != bool(b.steps):
        return {}
    paths = _paths(*_laid_over(a.tree, b.tree))
    return {
        what: _changes(paths, column, (a.count, b.count))
        for what, column in _TIMES.items()
        if what == "host" or (a.on_device and b.on_device)
    }


def _laid_over(a: AlignableTree, b: AlignableTree) -> tuple[Union, Ints, Ints]:
    """Both trees, and the figures of each; what sorts first is taken first, so that A and B may change places."""
    swapped = _order(b) < _order(a)
    union = united(b, a) if swapped else united(a, b)
    at_a, at_b = (union.at_b, union.at_a) if swapped else (union.at_a, union.at_b)
    figures = []
    for tree, at in ((a, at_a), (b, at_b)):
        figures.append(np.zeros_like(union.tree.figures))
        figures[-1][at] = tree.figures
    return union, figures[0], figures[1]


def _order(tree: AlignableTree) -> tuple[bytes, ...]:
    return tuple(column.tobytes() for column in (tree.key, tree.inputs, tree.parent, tree.mark))


def _paths(union: Union, of_a: Ints, of_b: Ints) -> _Paths:
    """Calls of one path and match together; those inside a call without a partner belong to it."""
    tree = union.tree
    match = np.select([of_b[:, 0] == 0, of_a[:, 0] == 0, union.shortened], [2, 3, 1], 0)
    group, tops = np.zeros(len(match), dtype=np.int64), np.zeros(len(match), dtype=np.bool_)
    paths: list[tuple[str, ...]] = [()]
    kinds = [np.array([[-1, 0, 0]])]
    for level in levels_of(tree.parent)[1:]:
        above = tree.parent[level]
        inside = (match[level] >= _PAIRED) & (match[above] == match[level])
        group[level[inside]] = group[above[inside]]
        top = level[~inside]
        tops[top] = True
        kind, number = np.unique(
            np.stack((group[tree.parent[top]], tree.label[top], match[top]), axis=1), axis=0, return_inverse=True
        )
        group[top] = len(paths) + number.reshape(-1)
        paths += [(*paths[around], tree.names[label]) for around, label, _ in kind.tolist()]
        kinds.append(kind)
    parent, _, matches = np.concatenate(kinds).T.tolist()
    sums = _summed(of_a, group, tops, len(paths)), _summed(of_b, group, tops, len(paths))
    return _Paths(paths, matches, parent, sums)


def _summed(figures: Ints, group: Ints, tops: Bools, count: int) -> Ints:
    """Sums of the figures of each group; calls are those at its top."""
    sums = np.zeros((count, figures.shape[1]), dtype=np.int64)
    np.add.at(sums, group, figures * np.stack((tops, np.ones_like(tops), np.ones_like(tops)), axis=1))
    return sums


def _changes(paths: _Paths, column: int, counts: tuple[int, int]) -> Changes:
    """The paths of all calls, or of those on which, or inside which, any time of the device is."""
    a, b = (_side(paths, figures[:, [0, column]], count) for figures, count in zip(paths.figures, counts, strict=True))
    wholes = (a.total[0], b.total[0])
    rows = [
        _change(paths.paths[row], _MATCHES[paths.match[row]], row, a, b)
        for row in range(1, len(paths.paths))
        if a.total[row] or b.total[row] or (column == _TIMES["host"] and paths.paths[row] != (OTHERS,))
    ]
    return Changes(a=wholes[0], b=wholes[1], rows=with_shares(by_difference(rows), wholes), wholes=wholes)


def _change(path: tuple[str, ...], match: Match, row: int, a: _Side, b: _Side) -> PathChange:
    in_a, in_b = match != "appeared", match != "vanished"
    return PathChange(
        name=BETWEEN.join(path), path=path, matched=match, share=None,
        a=a.own[row] if in_a else None, total_a=a.total[row] if in_a else None, calls_a=a.calls[row] if in_a else None,
        b=b.own[row] if in_b else None, total_b=b.total[row] if in_b else None, calls_b=b.calls[row] if in_b else None,
    )  # fmt: skip


def _side(paths: _Paths, sums: Ints, count: int) -> _Side:
    """Means of the sums of calls and of one kind of time."""
    calls, times = (column.tolist() for column in sums.T)
    parts = {str(row): time / count for row, time in enumerate(times)}
    own = [time or 0 for time in divided(sum(times) / count, parts).parts.values()]
    total = own.copy()
    for row in range(len(own) - 1, 0, -1):
        total[paths.parent[row]] += total[row]
    return _Side([number / count for number in calls], own, total)
