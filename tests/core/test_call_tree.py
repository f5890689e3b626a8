"""Call trees add up, come depth first, and are cut without losing a parent."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.core.call_tree import apportioned, call_tree, cut, subtree_sums

TREES = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 50), st.integers(0, 3)), min_size=1, max_size=40)


def columns(drawn: list[tuple[int, int, int]]) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Each node hangs from an earlier one."""
    parent = [above % at if at else -1 for at, (above, _, _) in enumerate(drawn)]
    return {
        "parent": np.array(parent, dtype=np.int64),
        "own": np.array([own for _, own, _ in drawn], dtype=np.int64),
        "label": np.array([label for _, _, label in drawn], dtype=np.int64),
        "calls": np.ones(len(drawn), dtype=np.int64),
    }


@settings(deadline=None)
@given(TREES)
def test_each_node_is_its_own_time_and_that_below_it(drawn: list[tuple[int, int, int]]) -> None:
    tree = call_tree(**columns(drawn))
    below = np.zeros_like(tree.own)
    np.add.at(below, tree.parent[1:], tree.total[1:])
    assert (tree.own + below == tree.total).all()
    assert tree.total[0] == sum(own for _, own, _ in drawn)
    assert (tree.parent < np.arange(len(drawn))).all()
    assert tree.depth.tolist() == [0, *(tree.depth[tree.parent[1:]] + 1).tolist()]


@settings(deadline=None)
@given(TREES)
def test_nodes_come_depth_first_and_the_larger_sibling_first(drawn: list[tuple[int, int, int]]) -> None:
    tree = call_tree(**columns(drawn))
    for node in range(1, len(drawn)):
        assert tree.parent[node] == node - 1 or tree.depth[node] <= tree.depth[node - 1]
        siblings = np.flatnonzero(tree.parent == tree.parent[node])
        assert (np.diff(tree.total[siblings]) <= 0).all()


def test_a_rank_comes_before_size() -> None:
    nodes = [np.array(values) for values in ([0, 1, 2], [-1, 0, 0], [0, 1, 9], [1, 1, 1], [0, 0, 1])]
    label, parent, own, calls, rank = nodes
    assert call_tree(label=label, parent=parent, own=own, calls=calls, rank=rank).label.tolist() == [0, 1, 2]
    assert call_tree(label=label, parent=parent, own=own, calls=calls).label.tolist() == [0, 2, 1]


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**61), max_size=30), st.integers(0, 2**61))
def test_shares_add_up_to_the_whole(parts: list[int], whole: int) -> None:
    found = apportioned(np.array(parts, dtype=np.int64), whole).tolist()
    assert sum(found) == (whole if any(parts) else 0)
    for part, got in zip(parts, found, strict=True):
        assert not any(parts) or abs(got * sum(parts) - part * whole) <= sum(parts)


@settings(deadline=None)
@given(TREES, st.integers(1, 45))
def test_what_remains_of_a_tree_is_a_tree_of_the_largest(drawn: list[tuple[int, int, int]], most: int) -> None:
    tree = call_tree(**columns(drawn))
    kept = cut(tree, most)
    assert kept.sum() == min(most, len(drawn))
    assert kept[tree.parent[1:][kept[1:]]].all()
    if not kept.all():
        assert tree.total[~kept].max() <= tree.total[kept].min()


def test_sums_of_a_chain() -> None:
    assert subtree_sums(np.array([-1, 0, 1]), np.array([1, 2, 4])).tolist() == [7, 6, 4]
