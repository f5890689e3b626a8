"""Which of nested ranges was going on during a stretch of time: the innermost one that covers more than half of it.

A range that covers more than half of a stretch holds its middle, and each range around that one covers at least as
much. So it is found among the ranges around the middle, from the inside out, without a loop over events.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.core.nesting import nest

__all__ = ["Stretches", "covering", "outwards", "parents"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """Ranges of time [start, end) in ns, each on a track such as a thread; -1 is the track of none."""

    track: Ints
    start: Ints
    end: Ints


def parents(ranges: Stretches) -> Ints:
    """For each range the row of the one around it on its track, -1 for none; nested as in `core.nesting`."""
    return nest(ranges.track, ranges.start, ranges.end).parent


def covering(ranges: Stretches, parent: Ints, asked: Stretches) -> Ints:
    """For each stretch the row of the innermost range of its track that covers more than half of it, -1 for none.

    `parent` is that of `parents`. Of ranges that overlap in part, the last to start is looked at.
    """
    length = asked.end - asked.start
    at = _last_to_start(ranges, asked.track, asked.start + length // 2)
    while True:
        outside = np.nonzero(at >= 0)[0]
        found = at[outside]
        until = np.minimum(ranges.end[found], asked.end[outside])
        shared = until - np.maximum(ranges.start[found], asked.start[outside])
        outside = outside[2 * shared <= length[outside]]
        if not len(outside):
            return at
        at[outside] = parent[at[outside]]


def outwards(parent: Ints, rows: Ints, passes: Bools) -> Ints:
    """For each of some rows, it or the nearest range around it that passes, -1 for none."""
    at = rows.copy()
    while True:
        moving = np.nonzero(at >= 0)[0]
        moving = moving[~passes[at[moving]]]
        if not len(moving):
            return at
        at[moving] = parent[at[moving]]


def _last_to_start(ranges: Stretches, at_track: Ints, at: Ints) -> Ints:
    """For each moment the last range of its track to start until then, the shortest of several; -1 without any."""
    found = np.full(len(at), -1, dtype=np.int64)
    for track in np.unique(at_track[at_track >= 0]).tolist():
        rows = np.nonzero(ranges.track == track)[0]
        rows = rows[np.lexsort((-ranges.end[rows], ranges.start[rows]))]
        asked = np.nonzero(at_track == track)[0]
        before = np.searchsorted(ranges.start[rows], at[asked], side="right") - 1
        found[asked[before >= 0]] = rows[before[before >= 0]]
    return found
