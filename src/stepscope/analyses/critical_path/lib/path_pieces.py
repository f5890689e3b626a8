"""What a host thread did, moment by moment: stretches cut where another operator, call or annotation goes on."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyses.lib.host_order import HostOrder

__all__ = ["Pieces", "cut", "pieces"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Parts of stretches: `of` is the place of the stretch, `row` the innermost row of the host tree, -1 for none."""

    of: Ints
    row: Ints
    start: Ints
    end: Ints


def pieces(order: HostOrder, track: Ints, start: Ints, end: Ints) -> Pieces:
    """Cut stretches of threads into what went on innermost; in no order. The pieces fill the stretches exactly."""
    parts = [_entries(order, this, track, start, end) for this in np.unique(track).tolist()]
    of, row, since, until = (np.concatenate([part[n] for part in parts]) for n in range(4))
    parent, found = order.tree.nesting.parent, []
    while len(of):
        inside = row >= 0
        stop = np.where(inside, np.clip(order.end[row], since, until), until)
        found.append((of, row, since, stop))
        left = stop < until
        of, since, until = of[left], stop[left], until[left]
        row = parent[row[left]]
    of, row, since, until = (np.concatenate([part[n] for part in found]) for n in range(4))
    real = until > since
    return Pieces(of[real], row[real], since[real], until[real])


def cut(found: Pieces, track: Ints, edges: dict[int, Ints]) -> Pieces:
    """Cut pieces again at sorted times: `edges` are those of each thread, `track` the thread of each stretch."""
    of, row, since, until = [found.of], [found.row], [found.start], [found.end.copy()]
    for this, times in edges.items():
        asked = np.flatnonzero(track[found.of] == this)
        first = np.searchsorted(times, found.start[asked], side="right")
        count = np.searchsorted(times, found.end[asked]) - first
        piece = np.repeat(asked, count)
        edge = np.arange(len(piece)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
        last = np.append(piece[1:] != piece[:-1], True)[: len(piece)]
        until[0][asked[count > 0]] = times[first[count > 0]]
        of.append(found.of[piece])
        row.append(found.row[piece])
        since.append(times[edge])
        until.append(np.where(last, found.end[piece], times[np.minimum(edge + 1, len(times) - 1)]))
    return Pieces(*(np.concatenate(parts) for parts in (of, row, since, until)))


def _entries(order: HostOrder, this: int, track: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """For the stretches of one thread: each row that starts inside, and the last to start before, until the next."""
    asked = np.flatnonzero(track == this)
    rows = order.of_track(this)
    starts = order.start[rows]
    first = np.searchsorted(starts, start[asked], side="right") - 1
    count = np.searchsorted(starts, end[asked]) - first
    of = np.repeat(asked, count)
    offset = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    place = np.repeat(first, count) + offset
    row = np.where(place >= 0, rows[np.maximum(place, 0)], -1)
    since = np.where(offset > 0, starts[np.maximum(place, 0)], start[of])
    last = np.append(of[1:] != of[:-1], True)[: len(of)]
    until = np.where(last, end[of], np.append(since[1:], 0)[: len(of)])
    return of, row, since, until
