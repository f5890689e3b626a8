"""Nesting against a search over all pairs of ranges."""

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from stepscope.core.nesting import enclosing, innermost, nest, outwards

Range = tuple[int, int, int]
RANGES = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(0, 6)).map(lambda r: (r[0], r[1], r[1] + r[2])),
    max_size=12,
)


def columns(ranges: list[Range]) -> tuple[npt.NDArray[np.int64], ...]:
    array = np.array(ranges, dtype=np.int64).reshape(-1, 3)
    return array[:, 0], array[:, 1], array[:, 2]


def holds(outer: Range, inner: Range) -> bool:
    return outer[0] == inner[0] and outer[1] <= inner[1] < outer[2] and inner[2] <= outer[2]


def place(ranges: list[Range], row: int) -> tuple[int, int, int]:
    """Order in which ranges start: by time, the longer first, the one given first first."""
    return ranges[row][1], -ranges[row][2], row


def parent_by_search(ranges: list[Range], row: int) -> int:
    before = [
        other
        for other in range(len(ranges))
        if other != row and holds(ranges[other], ranges[row]) and place(ranges, other) < place(ranges, row)
    ]
    return max(before, key=lambda other: place(ranges, other), default=-1)


@given(RANGES)
def test_parents_are_those_of_a_search_over_all_pairs(ranges: list[Range]) -> None:
    assert nest(*columns(ranges)).parent.tolist() == [parent_by_search(ranges, row) for row in range(len(ranges))]


@given(RANGES)
def test_depth_counts_the_parents(ranges: list[Range]) -> None:
    nesting = nest(*columns(ranges))
    for row, depth in enumerate(nesting.depth.tolist()):
        outward, steps = nesting.parent[row], 0
        while outward >= 0:
            outward, steps = nesting.parent[outward], steps + 1
        assert depth == steps


@given(RANGES)
def test_self_time_is_the_time_that_no_child_covers(ranges: list[Range]) -> None:
    nesting = nest(*columns(ranges))
    for row, (_, start, end) in enumerate(ranges):
        children = [ranges[child] for child in range(len(ranges)) if nesting.parent[child] == row]
        covered = {moment for child in children for moment in range(child[1], child[2])}
        assert nesting.self_time[row] == len(set(range(start, end)) - covered)


@given(RANGES, RANGES)
def test_enclosing_finds_the_last_to_start_of_those_that_hold_a_range(first: list[Range], second: list[Range]) -> None:
    expected = [
        max((row for row in range(len(first)) if holds(first[row], inner)), key=lambda r: place(first, r), default=-1)
        for inner in second
    ]
    assert enclosing(*columns(first), *columns(second)).tolist() == expected
    nesting = nest(*columns(first))
    assert innermost(nesting, *columns(first), *columns(second)).tolist() == expected


def test_a_range_that_outlasts_another_hangs_from_the_next_one_out() -> None:
    nesting = nest(*columns([(0, 0, 100), (0, 10, 50), (0, 40, 60)]))
    assert nesting.parent.tolist() == [-1, 0, 0]
    assert nesting.self_time.tolist() == [50, 40, 20]


def test_the_nearest_outwards_that_passes() -> None:
    parent = np.array([-1, 0, 1, 2, -1])
    passes = np.array([False, True, False, False, False])
    assert outwards(parent, np.array([3, 2, 1, 0, 4, -1]), passes).tolist() == [1, 1, 1, -1, -1, -1]
