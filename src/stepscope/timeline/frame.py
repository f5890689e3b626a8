"""What is drawn of a window at the resolution of a screen: small, and exact about what it merges.

A span that is as wide as a pixel is drawn by itself. Of those that are not, the ones of a lane that begin in the same
pixel are merged, and counted; one alone is drawn. So a lane sends at most two things a pixel, however long the trace.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.core.run import Run
from stepscope.timeline.content import Category, Content, Floats, Series, Share, Spans
from stepscope.timeline.contents import chosen
from stepscope.timeline.lanes import Ints, SpanLane

__all__ = ["MOST_PIXELS", "Cut", "LaneFrame", "SpanFrame", "ValueFrame", "WindowFrame", "cut", "frame", "inside"]

MOST_PIXELS = 8192  # no screen is wider; it bounds the answer


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """Of a lane in a window: places of the spans that are drawn, and of each merged block its pixel, first and last
    place, how many and how long they are together, and the place of the longest."""

    drawn: Ints
    pixel: Ints
    first: Ints
    count: Ints
    busy: Ints
    longest: Ints


@dataclass(frozen=True, slots=True, eq=False)
class LaneFrame:
    """A lane with anything in the window. Names are numbers of the frame."""

    lane: int
    start: Ints
    end: Ints
    name: Ints
    pixel: Ints
    count: Ints
    busy: Ints
    longest: Ints


@dataclass(frozen=True, slots=True, eq=False)
class SpanFrame:
    """A track of spans: `drawn` by themselves and `merged` are all that touch the window."""

    id: str
    drawn: int
    merged: int
    lanes: tuple[LaneFrame, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ValueFrame:
    """The lowest and highest value in each pixel; NaN: not known there."""

    id: str
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True, eq=False)
class WindowFrame:
    """What is drawn of [start, end) in `width` pixels; `names` with their categories are what numbers of names mean."""

    start: int
    end: int
    width: int
    names: tuple[tuple[str, Category], ...]
    tracks: tuple[SpanFrame | ValueFrame, ...]


def frame(run: Run, window: tuple[int, int], width: int, tracks: Sequence[str] | None = None) -> WindowFrame:
    """What is drawn of a window (ns on the clock of the run) of the named tracks, or of all.

    Raises ValueError for an empty window or width, KeyError for a track that there is not.
    """
    start, end = window
    if end <= start or not 0 < width <= MOST_PIXELS:
        raise ValueError(f"a window of {end - start} ns in {width} pixels")
    names = _Names()
    found = tuple(_drawn(content, start, end, width, names) for content in chosen(run, tracks))
    return WindowFrame(start, end, width, tuple(names.number), found)


def inside(lane: SpanLane, start: int, end: int) -> tuple[int, int]:
    """The places of the spans that touch a window, from the first to before the last; empty ones at its start do."""
    first = min(np.searchsorted(lane.end, start, side="right"), np.searchsorted(lane.start, start, side="left"))
    return int(first), int(np.searchsorted(lane.start, end, side="left"))


def cut(lane: SpanLane, start: int, end: int, width: int) -> Cut | None:
    """What is drawn of a lane; None if nothing of it touches the window."""
    first, last = inside(lane, start, end)
    if first >= last:
        return None
    before = int(lane.start[first] < start)  # at most one begins before the window: it is drawn by itself
    places = first + before + np.searchsorted(lane.start[first + before : last], _edges(start, end, width))
    begins, stops = places[:-1], places[1:]
    pixel = np.flatnonzero(stops > begins)
    begins, stops = begins[pixel], stops[pixel]
    final = stops - 1  # of the spans that begin in a pixel only the last can reach beyond it
    wide = (lane.end[final] - lane.start[final]) * width >= end - start
    stops = stops - wide
    count = stops - begins
    alone, merged = count == 1, count > 1
    drawn = np.sort(np.concatenate((np.arange(first, first + before), final[wide], begins[alone])))
    found = _merged(lane, begins[merged], stops[merged])
    made = Cut(drawn, pixel[merged], begins[merged], count[merged], *found)
    assert len(made.drawn) + int(made.count.sum()) == last - first
    return made


def _merged(lane: SpanLane, begins: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """How long the spans from each place to before another are together, and which is the longest."""
    if not len(begins):
        return begins, begins
    busy = lane.sums[stops] - lane.sums[begins]
    ends = np.stack((begins, stops), axis=1).ravel()
    keys = np.maximum.reduceat(lane.longest[: stops[-1] + 1], ends)[::2]
    return busy, keys % len(lane.start)


def _edges(start: int, end: int, width: int) -> Ints:
    """The first ns of each pixel, and the end of the last one."""
    return start - (-np.arange(width + 1, dtype=np.int64) * (end - start)) // width


class _Names:
    """Numbers of names in a frame, in the order in which they are met."""

    def __init__(self) -> None:
        self.number: dict[tuple[str, Category], int] = {}

    def of(self, content: Spans, codes: npt.NDArray[np.int32]) -> Ints:
        distinct, place = np.unique(codes, return_inverse=True)
        pairs = [(content.names[code], content.categories[code]) for code in distinct.tolist()]
        numbers = [self.number.setdefault(pair, len(self.number)) for pair in pairs]
        return np.array(numbers, dtype=np.int64)[place]


def _drawn(content: Content, start: int, end: int, width: int, names: _Names) -> SpanFrame | ValueFrame:
    if isinstance(content, Share):
        share = _share(content, start, end, width)
        return ValueFrame(content.track.id, share, share)
    if isinstance(content, Series):
        return ValueFrame(content.track.id, *_extremes(content, start, end, width))
    lanes = []
    for number, lane in enumerate(content.lanes):
        found = cut(lane, start, end, width)
        if found is not None:
            lanes.append(_lane_frame(content, number, lane, found, names))
    drawn, merged = (
        sum(part) for part in zip((0, 0), *((len(x.start), int(x.count.sum())) for x in lanes), strict=True)
    )
    return SpanFrame(content.track.id, drawn, merged, tuple(lanes))


def _lane_frame(content: Spans, number: int, lane: SpanLane, found: Cut, names: _Names) -> LaneFrame:
    codes = names.of(content, np.concatenate((lane.name[found.drawn], lane.name[found.longest])))
    single = len(found.drawn)
    return LaneFrame(
        number, lane.start[found.drawn], lane.end[found.drawn], codes[:single], found.pixel, found.count, found.busy,
        codes[single:],
    )  # fmt: skip


def _share(content: Share, start: int, end: int, width: int) -> Floats:
    """The share of each pixel that is busy; NaN where the track has begun not yet, or is over."""
    edges, busy = _edges(start, end, width), content.busy
    place = np.searchsorted(busy[:, 0], edges, side="right") - 1
    within = np.clip(edges - busy[place, 0], 0, busy[place, 1] - busy[place, 0])
    covered = np.where(place < 0, 0, content.before[place] + within)
    lengths = np.diff(edges)
    share = np.diff(covered) / np.maximum(lengths, 1)
    outside = (edges[1:] <= content.track.first) | (edges[:-1] >= content.track.last) | (lengths == 0)
    return np.where(outside, np.nan, share)


def _extremes(content: Series, start: int, end: int, width: int) -> tuple[Floats, Floats]:
    """The lowest and highest value that holds in each pixel."""
    edges = _edges(start, end, width)
    held = np.searchsorted(content.time, edges[:-1], side="right") - 1  # what holds as the pixel begins
    stops = np.maximum(np.searchsorted(content.time, edges[1:], side="left"), held + 1)
    begins = np.maximum(held, 0)
    known = (stops > begins) & (edges[:-1] <= content.track.last)
    low, high = np.full(width, np.nan), np.full(width, np.nan)
    if known.any():
        ends = np.stack((begins[known], stops[known]), axis=1).ravel()
        values = np.concatenate((content.value[: stops[known].max()], [np.nan]))
        low[known] = np.fmin.reduceat(values, ends)[::2]
        high[known] = np.fmax.reduceat(values, ends)[::2]
    return low, high
