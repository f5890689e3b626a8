"""Running maxima within groups, such as how far earlier work of the same group reaches."""

import numpy as np
import numpy.typing as npt

__all__ = ["reached_before"]

Ints = npt.NDArray[np.int64]


def reached_before(group: Ints, end: Ints) -> Ints:
    """For each row the largest `end` of the rows of its group before it; the smallest number without one.

    Rows are in order of groups, which are numbers from 0. Ranks of ends, unlike times, leave room for the group in one
    number: all of a group are above all of the one before, so that one running maximum serves all groups.
    """
    nothing = np.iinfo(np.int64).min
    if not len(end):
        return end
    order = np.argsort(end, kind="stable")
    place = np.empty(len(end), dtype=np.int64)
    place[order] = np.arange(len(end))
    highest = np.maximum.accumulate(group * len(end) + place) - group * len(end)
    follows = np.concatenate(([False], group[1:] == group[:-1]))
    return np.where(follows, end[order[np.roll(highest, 1)]], nothing)
