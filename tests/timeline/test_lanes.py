"""Lanes: nothing overlaps in one, what lies in another lies below it, and nothing is lost."""

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.timeline.lanes import SpanLane, lanes

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=25)


def made(spans: list[tuple[int, int]]) -> tuple[SpanLane, ...]:
    start = np.array([start for start, _ in spans], dtype=np.int64)
    length = np.array([length for _, length in spans], dtype=np.int64)
    rows = np.arange(len(spans), dtype=np.int64)
    return lanes(start, start + length, rows.astype(np.int32), rows)


def test_nested_spans_lie_below_each_other() -> None:
    found = made([(0, 100), (10, 20), (40, 10), (42, 3)])
    assert [lane.row.tolist() for lane in found] == [[0], [1, 2], [3]]


def test_a_span_that_crosses_another_gets_a_lane_below_all() -> None:
    found = made([(0, 10), (2, 3), (5, 10), (20, 5)])
    assert [lane.row.tolist() for lane in found] == [[0, 3], [1], [2]]


@given(SPANS)
def test_all_spans_are_in_lanes_in_order_and_without_overlap(spans: list[tuple[int, int]]) -> None:
    found = made(spans)
    for lane in found:
        ends = zip(lane.start.tolist(), lane.end.tolist(), strict=True)
        assert all(first[1] <= second[0] for first, second in pairwise(ends))
        assert lane.sums[-1] == (lane.end - lane.start).sum()
    drawn = Counter(int(row) for lane in found for row in lane.row)
    assert drawn == Counter(range(len(spans)))
