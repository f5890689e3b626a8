"""The compiled algebra of intervals gives what that of numpy gives."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.core.intervals import Spans, intersect, overlap_each, subtract, union
from stepscope.native import _scanner

from . import intervals_by_numpy

SPANS = st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), max_size=16).map(
    lambda rows: np.array(rows, dtype=np.int64).reshape(-1, 2)
)
IN_COLUMNS = st.booleans()


@given(SPANS, SPANS, st.sampled_from([subtract, intersect, overlap_each]), IN_COLUMNS)
def test_both_give_the_same(a: Spans, b: Spans, combine: Callable[[Spans, Spans], Spans], in_columns: bool) -> None:
    if in_columns:
        a, b = np.asfortranarray(a), np.asfortranarray(b)
    expected = getattr(intervals_by_numpy, combine.__name__)(a, b)
    found = combine(a, b)
    assert found.tolist() == expected.tolist()
    assert found.dtype == np.int64 and found.flags.writeable


@given(SPANS)
def test_both_unite_the_same(a: Spans) -> None:
    expected = intervals_by_numpy.union(a)
    assert union(a).tolist() == expected.tolist()
    assert union(expected) is expected


def test_windows_without_room_for_what_they_share_are_refused() -> None:
    spans, room = np.zeros((2, 2), dtype=np.int64), np.zeros(1, dtype=np.int64)
    with pytest.raises(ValueError, match="different lengths"):
        _scanner.overlap_each(spans, spans, room)
