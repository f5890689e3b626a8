"""The compiled loop over nested ranges gives what the loop in Python gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.core.nesting import nest
from stepscope.native import _scanner

from .nesting_by_loop import fill

RANGES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 9)), max_size=40)


@given(RANGES)
def test_compiled_loop_equals_the_loop_in_python(ranges: list[tuple[int, int, int]]) -> None:
    track, start, length = np.array(ranges, dtype=np.int64).reshape(-1, 3).T
    end = start + length
    expected = [np.empty(len(ranges), dtype=np.int64) for _ in range(3)]
    fill(np.lexsort((-end, start, track)), track, start, end, *expected)
    found = nest(track, start, end)
    for one, other in zip((found.parent, found.depth, found.self_time), expected, strict=True):
        assert one.tolist() == other.tolist()


def test_arrays_of_different_lengths_are_refused() -> None:
    long, short = np.zeros(3, dtype=np.int64), np.zeros(2, dtype=np.int64)
    with pytest.raises(ValueError, match="different lengths"):
        _scanner.nest(long, long, long, long, short, long, long)


def test_a_buffer_without_room_behind_it_is_refused() -> None:
    scanner = _scanner.Columns(
        [(key, 2, 0) for key in ("ph", "cat", "name", "pid", "tid")] + [("ts", 1, -1), ("dur", 1, -1), ("id", 0, -1)],
        [[] for _ in range(7)],
        [],
    ).scanner()
    with pytest.raises(ValueError, match="no room behind it"):
        scanner.scan(bytearray(100), 0, 100, 0)
