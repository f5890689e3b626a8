"""Interval arithmetic against sets of integers."""

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stepscope.core.intervals import Spans, clip, intersect, overlap_each, spans, subtract, total, union, within

RANGES = st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)).map(sorted).map(tuple), max_size=10)


def array(ranges: list[tuple[int, int]]) -> Spans:
    return np.array(ranges, dtype=np.int64).reshape(-1, 2)


def moments(ranges: Spans | list[tuple[int, int]]) -> set[int]:
    return {moment for start, end in ranges for moment in range(start, end)}


def is_a_set(a: Spans) -> bool:
    """Sorted, without empty spans, and with a gap between any two."""
    return bool((a[:, 0] < a[:, 1]).all() and (a[:-1, 1] < a[1:, 0]).all() and a.dtype == np.int64)


@given(RANGES)
def test_union(a: list[tuple[int, int]]) -> None:
    merged = union(array(a))
    assert is_a_set(merged)
    assert moments(merged) == moments(a)
    assert total(merged) == len(moments(a))


@given(RANGES, RANGES)
def test_subtract(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    rest = subtract(array(a), array(b))
    assert is_a_set(rest)
    assert moments(rest) == moments(a) - moments(b)


@given(RANGES, RANGES)
def test_intersect(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    common = intersect(array(a), array(b))
    assert is_a_set(common)
    assert moments(common) == moments(a) & moments(b)


@given(RANGES, st.integers(-25, 25), st.integers(-25, 25))
def test_clip(a: list[tuple[int, int]], start: int, end: int) -> None:
    inside = clip(array(a), start, end)
    assert is_a_set(inside)
    assert moments(inside) == moments(a) & set(range(start, end))


@given(RANGES, RANGES)
def test_within(windows: list[tuple[int, int]], a: list[tuple[int, int]]) -> None:
    windows = [window for window in windows if window[0] < window[1]]
    expected = [moments([window]) <= moments(a) for window in windows]
    assert within(array(windows), union(array(a))).tolist() == expected


@given(RANGES, RANGES)
def test_overlap_each(windows: list[tuple[int, int]], a: list[tuple[int, int]]) -> None:
    expected = [len(moments([window]) & moments(a)) for window in windows]
    assert overlap_each(array(windows), array(a)).tolist() == expected


@given(RANGES, RANGES)
def test_a_set_is_the_sum_of_what_it_shares_and_what_it_does_not(
    a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> None:
    assert total(union(array(a))) == total(intersect(array(a), array(b))) + total(subtract(array(a), array(b)))


def test_total_of_spans_that_overlap_is_their_sum() -> None:
    assert total(array([(0, 10), (5, 10)])) == 15


def test_spans_keeps_nanoseconds_beyond_the_reach_of_a_float() -> None:
    frame = pl.DataFrame({"start": [1_795_174_226_548_957_641], "end": [1_795_174_226_548_957_643]})
    assert total(union(spans(frame))) == 2
