"""The walk of critical paths by a loop in Python: what the compiled one is held against."""

from bisect import bisect_right

import numpy as np

from stepscope.analyses.critical_path.lib.path_walk import (
    DELAY,
    NOTHING_KNOWN,
    NOWHERE,
    THREAD,
    WORK,
    Causes,
    Ints,
    on_thread,
)


def step_by_step(causes: Causes, place: Ints, start: Ints, end: Ints) -> Ints:
    lists = [column.tolist() for column in causes]
    asked = zip(place.tolist(), start.tolist(), end.tolist(), strict=True)
    hops = [(number, *hop) for number, path in enumerate(asked) for hop in reversed(_hops(lists, *path))]
    return np.array(hops, dtype=np.int64).reshape(-1, 5).T


def _hops(lists: list[list[int]], place: int, begin: int, end: int) -> list[tuple[int, int, int, int]]:
    """One path from its end."""
    first, times, at, cause, start, held, holder = lists
    hops = []
    unused: dict[int, int] = {}  # each wait is used once, so paths end
    while end > begin:
        if place < NOWHERE:
            thread = on_thread(place)
            wait = bisect_right(times, end, first[thread], unused.get(thread, first[thread + 1])) - 1
            unused[thread] = max(wait, first[thread])
            place, since = (cause[wait], max(begin, at[wait])) if wait >= first[thread] else (NOWHERE, begin)
            hops.append((THREAD, thread, since, end))
        else:
            work, began = place, max(begin, start[place])
            hops.append((WORK, work, began, end))
            place = holder[work]
            since = max(begin, held[work]) if place != NOWHERE else begin
            hops.append((DELAY if place != NOWHERE else NOTHING_KNOWN, work, since, began))
        end = since
    return [hop for hop in hops if hop[3] > hop[2]]
