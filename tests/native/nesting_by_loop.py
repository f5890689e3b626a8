"""Nesting by a loop in Python: what the compiled one is held against."""

from stepscope.core.nesting import Ints


def fill(order: Ints, track: Ints, start: Ints, end: Ints, parent: Ints, depth: Ints, self_time: Ints) -> None:
    """Fill the last three arrays from the first four.

    `order` sorts the ranges by track, start and descending end.
    """
    parent[:], depth[:], self_time[:] = -1, 0, end - start
    covered_until: dict[int, int] = {}
    open_rows: list[int] = []
    current = None
    tracks, starts, ends = track.tolist(), start.tolist(), end.tolist()
    for row in order.tolist():
        if tracks[row] != current:
            current, open_rows = tracks[row], []
        while open_rows and ends[open_rows[-1]] <= starts[row]:
            open_rows.pop()
        holder = next((r for r in reversed(open_rows) if ends[r] >= ends[row]), None)
        if holder is not None:
            parent[row], depth[row] = holder, depth[holder] + 1
            fresh = ends[row] - max(starts[row], covered_until.get(holder, starts[row]))
            if fresh > 0:  # children that overlap each other are taken off once: self time is exact, never negative
                self_time[holder] -= fresh
                covered_until[holder] = ends[row]
        open_rows.append(row)
