"""Rows of spans that do not overlap: what a track is drawn in."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.core.nesting import nest

__all__ = ["Codes", "Ints", "SpanLane", "lanes"]

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class SpanLane:
    """Spans in order of time, none of which begins before the one before it has ended.

    `name` are numbers of names, `row` the rows of the core table that the spans are from. `sums` are the lengths of the
    spans before each, with the sum of all as the last. `longest` sorts as the lengths do, and its remainder of
    division by the number of spans is the place of the span; it has one element more, which is nobody's. `nests`: each
    span lies in one of the lane above, if there is any; false for those that begin in another and end after it.
    """

    start: Ints
    end: Ints
    name: Codes
    row: Ints
    sums: Ints
    longest: Ints
    nests: bool = True


def lanes(start: Ints, end: Ints, name: Codes, row: Ints) -> tuple[SpanLane, ...]:
    """The lanes of the spans of one track: what lies inside another is a lane below it.

    Spans that begin in another and end after it get lanes of their own, below all others.
    """
    depth = nest(np.zeros(len(start), dtype=np.int64), start, end).depth
    order = _in_order(depth, start, end)
    sizes = np.bincount(depth) if len(depth) else np.zeros(0, dtype=np.int64)
    found, crossing = [], []
    for rows in np.split(order, np.cumsum(sizes)[:-1]) if len(sizes) else []:
        clashes = _clashes(start[rows], end[rows])
        found.append(rows[~clashes])
        crossing.append(rows[clashes])
    nested = len(found)
    found += _first_fit(np.concatenate(crossing), start, end) if crossing else []
    made = tuple(
        _lane(start[rows], end[rows], name[rows], row[rows], nests=place < nested) for place, rows in enumerate(found)
    )
    assert sum(len(lane.start) for lane in made) == len(start)
    return made


def _in_order(depth: Ints, start: Ints, end: Ints) -> Ints:
    """By depth, then start, then end. Traces are nearly in order of time, and small numbers sort in a pass each."""
    order = np.argsort(start, kind="stable")
    shallow = depth.astype(np.uint16) if int(depth.max(initial=0)) < 1 << 16 else depth
    order = order[np.argsort(shallow[order], kind="stable")]
    same = (np.diff(start[order]) == 0) & (np.diff(depth[order]) == 0)
    return np.lexsort((end, start, depth)) if (same & (np.diff(end[order]) < 0)).any() else order


def _clashes(start: Ints, end: Ints) -> npt.NDArray[np.bool_]:
    """Which spans begin before one that comes earlier has ended."""
    return np.concatenate(([False], start[1:] < np.maximum.accumulate(end)[:-1]))


def _first_fit(rows: Ints, start: Ints, end: Ints) -> list[Ints]:
    """Each span in the first lane that is free when it begins."""
    until: list[int] = []
    placed: list[list[int]] = []
    for row in rows[np.lexsort((end[rows], start[rows]))].tolist():
        lane = next((place for place, time in enumerate(until) if time <= start[row]), len(until))
        if lane == len(until):
            until.append(0)
            placed.append([])
        until[lane] = int(end[row])
        placed[lane].append(row)
    return [np.array(lane, dtype=np.int64) for lane in placed]


def _lane(start: Ints, end: Ints, name: Codes, row: Ints, *, nests: bool) -> SpanLane:
    length = end - start
    sums = np.concatenate(([0], np.cumsum(length)))
    count = max(len(start), 1)
    scale = max(1, int(length.max(initial=0)) * count // 2**62 + 1)  # so that the product is an int64
    longest = np.concatenate((length // scale * count + np.arange(len(start)), [0]))
    return SpanLane(start, end, name, row, sums, longest, nests)
