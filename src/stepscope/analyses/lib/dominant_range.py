"""Which of nested ranges was going on during a stretch of time: the innermost one that covers more than half of it.

A range that covers more than half of a stretch holds its middle, and each range around that one covers at least as
much. So it is found among the ranges around the middle, from the inside out, without a loop over events.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.core.nesting import Nesting, last_to_start, nest

__all__ = ["Stretches", "covering", "nested"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """Ranges of time [start, end) in ns, each on a track such as a thread; -1 is the track of none."""

    track: Ints
    start: Ints
    end: Ints


def nested(ranges: Stretches) -> Nesting:
    """How ranges lie inside each other."""
    return nest(ranges.track, ranges.start, ranges.end)


def covering(ranges: Stretches, nesting: Nesting, asked: Stretches) -> Ints:
    """For each stretch the row of the innermost range of its track that covers more than half of it, -1 for none.

    `nesting` is that of the ranges. Of ranges that overlap in part, the last to start is looked at.
    """
    length = asked.end - asked.start
    at = last_to_start(nesting, ranges.track, ranges.start, asked.track, asked.start + length // 2)
    while True:
        outside = np.nonzero(at >= 0)[0]
        found = at[outside]
        until = np.minimum(ranges.end[found], asked.end[outside])
        shared = until - np.maximum(ranges.start[found], asked.start[outside])
        outside = outside[2 * shared <= length[outside]]
        if not len(outside):
            return at
        at[outside] = nesting.parent[at[outside]]
