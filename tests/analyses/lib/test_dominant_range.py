"""The innermost range that covers more than half of a stretch, against a search through all ranges."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyses.lib.dominant_range import Stretches, covering, nested

Range = tuple[int, int, int]  # track, start, end


def inside(start: int, end: int, draw: st.DrawFn, depth: int = 0) -> list[tuple[int, int]]:
    """Ranges that nest inside [start, end)."""
    if end - start < 2 or depth == 4:
        return []
    edges = sorted(draw(st.lists(st.integers(start, end), max_size=4, unique=True)))
    found: list[tuple[int, int]] = []
    for first, last in zip(edges[::2], edges[1::2], strict=False):
        found += [(first, last), *inside(first, last, draw, depth + 1)]
    return found


@st.composite
def ranges(draw: st.DrawFn) -> list[Range]:
    return [(track, *times) for track in (0, 1) for times in inside(0, 200, draw)]


def stretches(rows: list[Range]) -> Stretches:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Stretches(columns[:, 0], columns[:, 1], columns[:, 2])


def innermost(all_ranges: list[Range], asked: Range) -> tuple[int, int] | None:
    """Times of the last to start of those that cover more than half."""
    track, start, end = asked
    covers = [(a, b) for of, a, b in all_ranges if of == track and 2 * (min(b, end) - max(a, start)) > end - start]
    return max(covers, key=lambda times: (times[0], -times[1])) if covers else None


@settings(max_examples=100, deadline=None)
@given(ranges(), st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 200), st.integers(1, 80)), max_size=8))
def test_it_is_the_innermost_of_all_that_cover_more_than_half(rows: list[Range], asked: list[Range]) -> None:
    asked = [(track, start, start + length) for track, start, length in asked]
    known = stretches(rows)
    found = covering(known, nested(known), stretches(asked)).tolist()
    assert [rows[row][1:] if row >= 0 else None for row in found] == [innermost(rows, one) for one in asked]


def test_without_ranges_nothing_covers() -> None:
    nothing = stretches([])
    assert covering(nothing, nested(nothing), stretches([(0, 1, 2)])).tolist() == [-1]
