"""Rows of spans that do not overlap: what a track is drawn in."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.core.nesting import nest

__all__ = ["Codes", "Ints", "Lane", "lanes"]

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """Spans in order of time, none of which begins before the one before it has ended.

    `name` are numbers of names, `row` the rows of the core table that the spans are from. `sums` are the lengths of the
    spans before each, with the sum of all as the last. `longest` sorts as the lengths do, and its remainder of
    division by the number of spans is the place of the span; it has one element more, which is nobody's.
    """

    start: Ints
    end: Ints
    name: Codes
    row: Ints
    sums: Ints
    longest: Ints


def lanes(start: Ints, end: Ints, name: Codes, row: Ints) -> tuple[Lane, ...]:
    """The lanes of the spans of one track: what lies inside another is a lane below it.

    Spans that begin in another and end after it get lanes of their own, below all others.
    """
    depth = nest(np.zeros(len(start), dtype=np.int64), start, end).depth
    order = np.lexsort((end, start, depth))
    sizes = np.bincount(depth) if len(depth) else np.zeros(0, dtype=np.int64)
    found, crossing = [], []
    for rows in np.split(order, np.cumsum(sizes)[:-1]) if len(sizes) else []:
        clashes = _clashes(start[rows], end[rows])
        found.append(rows[~clashes])
        crossing.append(rows[clashes])
    found += _first_fit(np.concatenate(crossing), start, end) if crossing else []
    made = tuple(_lane(start[rows], end[rows], name[rows], row[rows]) for rows in found)
    assert sum(len(lane.start) for lane in made) == len(start)
    return made


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


def _lane(start: Ints, end: Ints, name: Codes, row: Ints) -> Lane:
    length = end - start
    sums = np.concatenate(([0], np.cumsum(length)))
    count = max(len(start), 1)
    scale = max(1, int(length.max(initial=0)) * count // 2**62 + 1)  # so that the product is an int64
    longest = np.concatenate((length // scale * count + np.arange(len(start)), [0]))
    return Lane(start, end, name, row, sums, longest)
