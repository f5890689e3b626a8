"""A frame leaves nothing out: what it draws and what it merges are all that touches the window."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.core.intervals import overlap_each, union
from stepscope.core.synth import MS, Synth
from stepscope.timeline import frame, tracks
from stepscope.timeline.content import Series, Share, Track
from stepscope.timeline.frame import LaneFrame, SpanFrame, ValueFrame, cut, inside
from stepscope.timeline.frame import _extremes as extremes
from stepscope.timeline.frame import _share as share

from .test_lanes import SPANS, made

WINDOWS = st.tuples(st.integers(-5, 70), st.integers(1, 80))
WIDTHS = st.integers(1, 30)


@given(SPANS, WINDOWS, WIDTHS)
def test_drawn_and_merged_are_all_of_the_window(
    spans: list[tuple[int, int]], window: tuple[int, int], width: int
) -> None:
    start, end = window[0], window[0] + window[1]
    touching = {k for k, (at, length) in enumerate(spans) if at < end and max(at + length, at + 1) > start}
    seen: Counter[int] = Counter()
    for lane in made(spans):
        found = cut(lane, start, end, width)
        if found is None:
            continue
        seen.update(lane.row[found.drawn].tolist())
        for pixel, first, count, busy, longest in zip(
            found.pixel, found.first, found.count, found.busy, found.longest, strict=True
        ):
            rows = lane.row[first : first + count].tolist()
            seen.update(rows)
            lengths = [spans[row][1] for row in rows]
            assert count > 1
            assert busy == sum(lengths)
            assert lane.row[longest] in rows
            assert spans[lane.row[longest]][1] == max(lengths)
            assert all((spans[row][0] - start) * width // (end - start) == pixel for row in rows)
            assert all(length * width < end - start for length in lengths)  # nothing as wide as a pixel is merged
    assert seen == Counter(touching)


@given(SPANS, WINDOWS)
def test_inside_is_what_touches_a_window(spans: list[tuple[int, int]], window: tuple[int, int]) -> None:
    start, end = window[0], window[0] + window[1]
    for lane in made(spans):
        first, last = inside(lane, start, end)
        touches = (lane.start < end) & (np.maximum(lane.end, lane.start + 1) > start)
        assert touches.tolist() == [first <= k < last for k in range(len(lane.start))]


@given(SPANS.filter(lambda spans: any(length for _, length in spans)), WINDOWS, WIDTHS)
def test_the_share_of_a_pixel_is_what_the_union_covers(
    spans: list[tuple[int, int]], window: tuple[int, int], width: int
) -> None:
    busy = union(np.array([(start, start + length) for start, length in spans], dtype=np.int64))
    before = np.concatenate(([0], np.cumsum(busy[:, 1] - busy[:, 0])))
    start, end = window[0], window[0] + window[1]
    edges = np.array([start - (-k * (end - start)) // width for k in range(width + 1)])
    pixels = np.stack((edges[:-1], edges[1:]), axis=1)
    covered = overlap_each(pixels, busy)
    found = share(Share(a_track(busy[0, 0], busy[-1, 1]), busy, before), start, end, width)
    for (a, b), time, value in zip(pixels.tolist(), covered.tolist(), found.tolist(), strict=True):
        if b <= busy[0, 0] or a >= busy[-1, 1] or a == b:
            assert np.isnan(value)
        else:
            assert value == time / (b - a)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.floats(-9, 9) | st.just(float("nan"))), min_size=1, max_size=20),
    WINDOWS, WIDTHS,
)  # fmt: skip
def test_a_pixel_has_the_lowest_and_highest_value_that_holds_in_it(
    samples: list[tuple[int, float]], window: tuple[int, int], width: int
) -> None:
    samples = sorted(samples, key=lambda sample: sample[0])
    time, value = np.array([at for at, _ in samples]), np.array([number for _, number in samples])
    start, end = window[0], window[0] + window[1]
    low, high = extremes(Series(a_track(time[0], time[-1] + 3), time, value), start, end, width)
    for pixel in range(width):
        a, b = (start - (-k * (end - start)) // width for k in (pixel, pixel + 1))
        held = [number for at, number in samples if at <= a][-1:] if a <= time[-1] + 3 else []
        within = [number for at, number in samples if a < at < b] if a <= time[-1] + 3 else []
        known = [number for number in (*held, *within) if not np.isnan(number)]
        assert (np.isnan(low[pixel]), np.isnan(high[pixel])) == (not known, not known)
        assert not known or (low[pixel], high[pixel]) == (min(known), max(known))


def test_a_frame_names_what_it_draws() -> None:
    run = Synth().host("aten::mm", "operator", 0, 10).host("aten::mm_out", "operator", 2, 3).kernel(4, 6).run()
    assert [track.id for track in tracks(run)] == [
        "path:0", "stream:0:0:7", "busy:0:0", "host:0:1:1",
    ]  # fmt: skip
    drawn = frame(run, (0, 10 * MS), 100, ["host:0:1:1"])
    (track,) = drawn.tracks
    assert isinstance(track, SpanFrame)
    assert (track.drawn, track.merged, len(track.lanes)) == (2, 0, 2)
    assert [drawn.names[lane.name[0]] for lane in track.lanes] == [
        ("aten::mm", "operator"),
        ("aten::mm_out", "operator"),
    ]


def test_spans_below_a_pixel_are_merged_and_counted() -> None:
    synth = Synth()
    for k in range(100):
        synth.host("short", "operator", k, k + 0.5)
    (track,) = frame(synth.run(), (0, 100 * MS), 10, ["host:0:1:1"]).tracks
    assert isinstance(track, SpanFrame)
    (lane,) = track.lanes
    assert isinstance(lane, LaneFrame)
    assert (track.drawn, track.merged) == (0, 100)
    assert lane.count.tolist() == [10] * 10
    assert lane.busy.tolist() == [5 * MS] * 10


def test_the_share_of_a_device_is_exact_in_each_pixel() -> None:
    run = Synth().kernel(0, 5).kernel(20, 40).run()
    (track,) = frame(run, (0, 40 * MS), 4, ["busy:0:0"]).tracks
    assert isinstance(track, ValueFrame)
    assert track.low.tolist() == [0.5, 0.0, 1.0, 1.0]


@pytest.mark.parametrize(("window", "width"), [((5, 5), 10), ((0, 5), 0), ((0, 5), 10_000)])
def test_a_window_without_time_or_pixels_is_refused(window: tuple[int, int], width: int) -> None:
    with pytest.raises(ValueError, match="a window of"):
        frame(Synth().kernel(0, 1).run(), window, width)


def test_a_track_that_there_is_not_is_refused() -> None:
    with pytest.raises(KeyError):
        frame(Synth().kernel(0, 1).run(), (0, 5), 10, ["host:0:1:2"])


def a_track(first: int, last: int) -> Track:
    return Track(
        id="x", kind="counter", rank=0, pid=None, group="", name="", count=1, first=int(first), last=int(last)
    )  # fmt: skip
