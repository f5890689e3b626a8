"""The longest common subsequence: against the plain table of lengths, cut in two, and with many items."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.compare import sequences
from stepscope.compare.sequences import common

ITEMS = st.lists(st.integers(0, 4), max_size=14)


def length(a: list[int], b: list[int]) -> int:
    """The textbook's table."""
    row = [0] * (len(b) + 1)
    for one in a:
        before, row = row, [0]
        for place, two in enumerate(b):
            row.append(before[place] + 1 if one == two else max(row[-1], before[place + 1]))
    return row[-1]


@given(ITEMS, ITEMS)
def test_it_is_common_in_order_and_the_longest(a: list[int], b: list[int]) -> None:
    pairs = common(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))
    assert len(pairs) == length(a, b)


@given(ITEMS, ITEMS)
def test_cut_in_two_it_is_as_long(a: list[int], b: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequences, "_LARGEST_TABLE", 4)
        pairs = common(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert len(pairs) == len({i for i, _ in pairs}) == len({j for _, j in pairs}) == length(a, b)


def test_of_repeated_items_the_one_between_others_is_found() -> None:
    conv, norm, relu = 1, 2, 3
    assert common([conv, norm, relu] * 2, [conv, norm, relu, conv, conv, norm, relu]) == [
        (0, 0), (1, 1), (2, 2), (3, 3), (4, 5), (5, 6),
    ]  # fmt: skip
    assert common([1, 2], [3]) == []
    assert common([], [1]) == []
