"""Parents and self time of nested ranges, by a stack per thread."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.native import _scanner

__all__ = ["Nesting", "enclosing", "innermost", "last_to_start", "nest", "outwards"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Nesting:
    """For each range, in the order given: the row of its parent (-1: none), its depth, and its self time in ns.

    `order` are the rows by track and start, outer ones first.
    """

    parent: Ints
    depth: Ints
    self_time: Ints
    order: Ints


def nest(track: Ints, start: Ints, end: Ints) -> Nesting:
    """Nest ranges of equal `track`. A range is the child of the last range to start among those that hold it whole.

    Of two equal ranges the one given first is the parent; an empty range holds nothing. A range that starts inside
    another and ends after it is no child of it; it hangs from the next one out that holds it, so that no self time is
    negative.
    """
    order = _outer_first(track, start, end)
    track, start, end = (np.ascontiguousarray(column, dtype=np.int64) for column in (track, start, end))
    parent, depth, self_time = (np.empty(len(start), dtype=np.int64) for _ in range(3))
    _scanner.nest(order, track, start, end, parent, depth, self_time)
    return Nesting(parent, depth, self_time, order)


def _outer_first(track: Ints, start: Ints, end: Ints) -> Ints:
    """The order by track, start and descending end; ends are compared only where starts are equal, which is rare."""
    order = np.lexsort((start, track)).astype(np.int64, copy=False)
    at, of = start[order], track[order]
    same = (at[1:] == at[:-1]) & (of[1:] == of[:-1])
    if same.any():
        alike = np.concatenate((same, [False])) | np.concatenate(([False], same))
        rows = order[alike]
        order[alike] = rows[np.lexsort((-end[rows], start[rows], track[rows]))]
    return order


def enclosing(track: Ints, start: Ints, end: Ints, at_track: Ints, at_start: Ints, at_end: Ints) -> Ints:
    """For each range of the second set, the row of the innermost range of the first that holds it on its track, or -1.

    "Innermost" is as in `nest`: the last to start.
    """
    return innermost(nest(track, start, end), track, start, end, at_track, at_start, at_end)


def innermost(
    nesting: Nesting, track: Ints, start: Ints, end: Ints, at_track: Ints, at_start: Ints, at_end: Ints
) -> Ints:
    """As `enclosing`, with the first set nested already; takes no loop over ranges.

    The range that holds another is the last to start before it, or one of its parents: whatever holds both starts
    before the last one, so it is met on the way out.
    """
    found = last_to_start(nesting, track, start, at_track, at_start)
    while True:
        outside = np.nonzero(found >= 0)[0]
        outside = outside[(end[found[outside]] < at_end[outside]) | (end[found[outside]] <= at_start[outside])]
        if not len(outside):
            return found
        found[outside] = nesting.parent[found[outside]]


def last_to_start(nesting: Nesting, track: Ints, start: Ints, at_track: Ints, at: Ints) -> Ints:
    """For each moment the last range of its track to start until then, the innermost of several; -1 without any."""
    found = np.full(len(at), -1, dtype=np.int64)
    tracks = track[nesting.order]
    for this in np.unique(at_track).tolist():
        rows = nesting.order[slice(*np.searchsorted(tracks, (this, this + 1)).tolist())]
        asked = np.flatnonzero(at_track == this)
        before = np.searchsorted(start[rows], at[asked], side="right") - 1
        found[asked[before >= 0]] = rows[before[before >= 0]]
    return found


def outwards(parent: Ints, rows: Ints, passes: npt.NDArray[np.bool_]) -> Ints:
    """For each of some rows, it or the nearest range around it that passes, -1 for none."""
    at = rows.copy()
    while True:
        moving = np.nonzero(at >= 0)[0]
        moving = moving[~passes[at[moving]]]
        if not len(moving):
            return at
        at[moving] = parent[at[moving]]
