"""What is in a window, by name: how often, how long by itself and in all, the longest, and the time that any of them
takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from stepscope.core.intervals import total, union
from stepscope.core.run import Run
from stepscope.timeline.content import Category, Spans
from stepscope.timeline.contents import chosen
from stepscope.timeline.frame import inside
from stepscope.timeline.lanes import Ints, SpanLane

__all__ = ["AggregateGroup", "NameSum", "Sums", "sums"]

AggregateGroup = Literal["work", "around", "idle", "path"]
"""Kernels, operators and calls; what stands around them: steps, annotations, Python frames, marks of the profiler; idle
times of devices; the critical path. Each by itself, as they are the same time."""

MOST_ROWS = 200  # of a group, by their own time; how many names there are is told
MOST_UNIONS = 500_000  # spans of which unions are made: half a second; of more only the sums are told
_AROUND: frozenset[Category] = frozenset(("step", "annotation", "python", "other"))
Key = tuple[AggregateGroup, str, Category]


@dataclass(frozen=True, slots=True)
class NameSum:
    """The spans of a name that touch a window, each clipped to it. Times in ns.

    `own` is the time of them without what lies inside them, on the same thread. `sum` counts time twice in which two of
    them run, `union` once; None: not computed, there are too many spans.
    """

    group: AggregateGroup
    name: str
    category: Category
    count: int
    own: int
    sum: int
    longest: int
    union: int | None


@dataclass(frozen=True, slots=True)
class Sums:
    """Rows by group and descending own time, of `names` in all; `spans` touch the window."""

    spans: int
    names: int
    rows: tuple[NameSum, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """What of a lane touches the window: numbers of names, starts and ends clipped to it, and lengths by themselves."""

    content: Spans
    code: Ints
    start: Ints
    end: Ints
    own: Ints


def sums(run: Run, window: tuple[int, int], tracks: Sequence[str] | None = None) -> Sums:
    """The spans of the named tracks, or of all, that touch a window, by name and category."""
    pieces = [piece for content in chosen(run, tracks) if isinstance(content, Spans) for piece in _of(content, window)]
    numbers: dict[Key, int] = {}
    for piece in pieces:
        for code in np.unique(piece.code).tolist():
            numbers.setdefault(_key(piece.content, code), len(numbers))
    name = _joined([_numbered(piece.content, numbers)[piece.code] for piece in pieces])
    start, end, own = (_joined([getattr(piece, part) for piece in pieces]) for part in ("start", "end", "own"))
    count, longest = np.bincount(name, minlength=len(numbers)), np.zeros(len(numbers), dtype=np.int64)
    summed, alone = np.zeros(len(numbers), dtype=np.int64), np.zeros(len(numbers), dtype=np.int64)
    np.add.at(summed, name, end - start)
    np.add.at(alone, name, own)
    np.maximum.at(longest, name, end - start)
    assert int(count.sum()) == len(name)
    keys = list(numbers)
    rows = _leading(keys, alone)
    unions = _unions(name, start, end, rows) if len(name) <= MOST_UNIONS else {}
    found = (
        NameSum(*keys[k], int(count[k]), int(alone[k]), int(summed[k]), int(longest[k]), unions.get(k)) for k in rows
    )
    return Sums(len(name), len(numbers), tuple(found))


def _key(content: Spans, code: int) -> Key:
    category = content.categories[code]
    match content.track.kind:
        case "gaps":
            return "idle", content.names[code], category
        case "path":
            return "path", content.names[code], category
    return "around" if category in _AROUND else "work", content.names[code], category


def _leading(keys: Sequence[Key], own: Ints) -> list[int]:
    """The places of the rows that are told: of each group those with most time."""
    order = np.argsort(-own, kind="stable").tolist()
    return [k for group in get_args(AggregateGroup) for k in [k for k in order if keys[k][0] == group][:MOST_ROWS]]


def _of(content: Spans, window: tuple[int, int]) -> Iterator[_Piece]:
    """Of each lane what touches the window."""
    places = [inside(lane, *window) for lane in content.lanes]
    times = [
        (np.maximum(lane.start[first:last], window[0]), np.minimum(lane.end[first:last], window[1]))
        for lane, (first, last) in zip(content.lanes, places, strict=True)
    ]
    own = [end - start for start, end in times]
    for above, below in pairwise(range(len(content.lanes))):
        if content.lanes[below].nests:
            _take(own[above], content.lanes[above], places[above], content.lanes[below], places[below], times[below])
    for lane, (first, last), (start, end), alone in zip(content.lanes, places, times, own, strict=True):
        if last > first:
            yield _Piece(content, lane.name[first:last].astype(np.int64), start, end, alone)


def _take(
    own: Ints,
    above: SpanLane,
    held: tuple[int, int],
    below: SpanLane,
    placed: tuple[int, int],
    times: tuple[Ints, Ints],
) -> None:
    """Take the times of spans from those of the lane above that they lie in."""
    rows = slice(*placed) if placed[1] > placed[0] else slice(0, 0)
    holder = np.searchsorted(above.start, below.start[rows], side="right") - 1
    within = (holder >= held[0]) & (holder < held[1])
    within[within] = above.end[holder[within]] >= below.end[rows][within]
    np.subtract.at(own, holder[within] - held[0], (times[1] - times[0])[within])


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _numbered(content: Spans, numbers: dict[Key, int]) -> Ints:
    return np.array([numbers.get(_key(content, code), -1) for code in range(len(content.names))], dtype=np.int64)


def _unions(name: Ints, start: Ints, end: Ints, rows: Sequence[int]) -> dict[int, int]:
    """The time that any span of each name takes."""
    order = np.argsort(name, kind="stable")
    edges = np.searchsorted(name[order], np.arange(int(name.max(initial=-1)) + 2))
    spans = np.stack((start, end), axis=1)[order]
    return {row: total(union(spans[edges[row] : edges[row + 1]])) for row in rows}
