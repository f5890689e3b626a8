"""Search by name: how often it occurs, and the occurrence after or before a moment."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.core.run import Run
from stepscope.timeline.content import DERIVED, Spans
from stepscope.timeline.contents import chosen
from stepscope.timeline.lanes import SpanLane

__all__ = ["Found", "Ref", "find"]

MOST_NAMES = 20  # that an answer lists; the count is of all
_BLOCK = 4096  # spans that are looked at at a time on the way to the next one
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Ref:
    """A span: the last of those of a lane that begin at `start`."""

    track: str
    lane: int
    start: int


@dataclass(frozen=True, slots=True)
class Found:
    """`total` spans have a name with the text in it; `hit` is the `position`-th of them in time, from 1.

    `names` are the most frequent of their names, with how often each occurs, of `distinct` ones.
    """

    total: int
    distinct: int
    names: tuple[tuple[str, int], ...]
    position: int = 0
    hit: Ref | None = None
    end: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """A lane with the names that match, in the order of all lanes."""

    content: Spans
    number: int
    lane: SpanLane
    matches: Bools


def find(run: Run, text: str, after: Ref | None = None, *, backwards: bool = False, at: int | None = None) -> Found:
    """Look for names with a text in them, in any case; of those the first after a span, or the first that begins at
    the moment `at` or later. `backwards`: the last before. Behind the last one comes the first again.
    """
    places, counts = _places(run, text)
    total = sum(counts.values())
    names = tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMES])
    if not total:
        return Found(0, 0, ())
    cursor = _cursor(places, after, at)
    step = _before if backwards else _after
    hits = list(_candidates(places, cursor, step)) or list(_candidates(places, None, step))
    start, order, index = max(hits) if backwards else min(hits)
    place = places[order]
    hit = Ref(place.content.track.id, place.number, start)
    name = place.content.names[place.lane.name[index]]
    return Found(
        total, len(counts), names, _position(places, start, order, index), hit, int(place.lane.end[index]), name
    )


def _places(run: Run, text: str) -> tuple[list[_Place], dict[str, int]]:
    """All lanes, and how often each name that matches occurs."""
    wanted, counts, places = text.casefold(), dict[str, int](), []
    for content in chosen(run, None):
        if isinstance(content, Spans) and content.track.kind not in DERIVED:
            matches = np.array([wanted in name.casefold() for name in content.names], dtype=np.bool_)
            for number, lane in enumerate(content.lanes):
                places.append(_Place(content, number, lane, matches))
                for code in np.flatnonzero((of_name := np.bincount(lane.name)) * matches[: len(of_name)]).tolist():
                    counts[content.names[code]] = counts.get(content.names[code], 0) + int(of_name[code])
    return places, counts


def _cursor(places: list[_Place], after: Ref | None, at: int | None) -> tuple[int, int] | None:
    """Where to look from: a moment, and the number of the lane that was looked at last; -1: none yet."""
    if after is not None:
        known = [(place.content.track.id, place.number) for place in places]
        return after.start, known.index((after.track, after.lane))
    return None if at is None else (at, -1)


def _candidates(
    places: list[_Place],
    cursor: tuple[int, int] | None,
    step: Callable[[_Place, tuple[int, int] | None], int | None],
) -> Iterator[tuple[int, int, int]]:
    """Of each lane the nearest span that matches: start, number of the lane, place."""
    for order, place in enumerate(places):
        if place.matches.any():
            index = step(place, None if cursor is None else (cursor[0], order - cursor[1]))
            if index is not None:
                yield int(place.lane.start[index]), order, index


def _after(place: _Place, cursor: tuple[int, int] | None) -> int | None:
    lane, first = place.lane, 0
    if cursor is not None:
        first = int(np.searchsorted(lane.start, cursor[0], side="left" if cursor[1] > 0 else "right"))
    for begin in range(first, len(lane.start), _BLOCK):
        matching = np.flatnonzero(place.matches[lane.name[begin : begin + _BLOCK]])
        if len(matching):
            return begin + int(matching[0])
    return None


def _before(place: _Place, cursor: tuple[int, int] | None) -> int | None:
    lane, stop = place.lane, len(place.lane.start)
    if cursor is not None:
        stop = int(np.searchsorted(lane.start, cursor[0], side="right" if cursor[1] < 0 else "left"))
    while stop > 0:
        begin = max(0, stop - _BLOCK)
        matching = np.flatnonzero(place.matches[lane.name[begin:stop]])
        if len(matching):
            return begin + int(matching[-1])
        stop = begin
    return None


def _position(places: list[_Place], start: int, order: int, index: int) -> int:
    """How many spans that match come no later: by start, then by lane, then by place."""
    found = 0
    for number, place in enumerate(places):
        if number == order:
            stop = index + 1
        else:
            stop = int(np.searchsorted(place.lane.start, start, side="right" if number < order else "left"))
        found += int(np.count_nonzero(place.matches[place.lane.name[:stop]]))
    return found
