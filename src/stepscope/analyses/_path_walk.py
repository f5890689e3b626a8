"""The critical path of a stretch of time, walked backwards from its end: at each point, what was waited for last?

A host thread is followed back to the last time it went on because of something else (`_path_waits`); a piece of device
work to what held it up (`_path_work`). The walk takes a step for each of these, whatever else the trace holds.
"""

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from stepscope.analyses._host_order import HostOrder
from stepscope.analyses._path_waits import Waits
from stepscope.analyses._path_work import HOST, LAUNCH, NOTHING, Work

__all__ = ["DELAY", "NOTHING_KNOWN", "THREAD", "WORK", "Place", "Walker"]

THREAD, WORK, DELAY, NOTHING_KNOWN = range(4)
"""What a path goes through: a thread, work of a device, the delay before work, a time of which nothing is known."""

Place = tuple[int, int]
"""Where the path is: a thread and its track, or work and its row."""

Ints = npt.NDArray[np.int64]
_NOWHERE: Place = (NOTHING_KNOWN, -1)
_NO_WAITS: tuple[list[int], list[int], list[Place]] = [], [], []


def _view(values: Ints) -> "memoryview[int]":
    return memoryview(values)  # type: ignore[arg-type]  # numpy's arrays are buffers, which Python 3.11 cannot say


class Walker:
    """Walks the paths of a run. Host and device may be missing."""

    def __init__(self, order: HostOrder | None, waits: Waits | None, work: Work | None) -> None:
        """Single values are read, so no columns: views of memory give them twice as fast as arrays do."""
        if work is not None:
            self._start, self._via, self._source, self._at = map(_view, (work.start, work.via, work.source, work.at))
        if order is not None:
            self._track = _view(order.track)
        self._waits: dict[int, tuple[list[int], list[int], list[Place]]] = {}
        if waits is not None:
            for track in np.unique(waits.track).tolist():
                here = slice(*np.searchsorted(waits.track, (track, track + 1)).tolist())
                places: list[Place] = [
                    (WORK, piece) if piece >= 0 else (THREAD, thread)
                    for piece, thread in zip(waits.work[here].tolist(), waits.thread[here].tolist(), strict=True)
                ]
                self._waits[track] = waits.time[here].tolist(), waits.at[here].tolist(), places

    def walk(self, place: Place, start: int, end: int, main: int | None) -> Ints:
        """The path from `place` at `end` back to `start`, whose hops leave no gap: rows of what the path goes through,
        its track or row of work, from and until, in order of time.

        `main` is the thread that launched work whose launch is unknown.
        """
        hops: list[int] = []
        seen: dict[int, int] = {}
        time = end
        while time > start:
            kind, number = place
            if kind == THREAD:
                since, place = self._last_wait(number, time, start, seen)
                hops.extend((THREAD, number, since, time))
                time = since
                continue
            since = max(start, self._start[number])
            hops.extend((WORK, number, since, time))
            if since > start:
                time, place = self._before(number, start, main)
                hops.extend((DELAY if place != _NOWHERE else NOTHING_KNOWN, number, time, since))
            else:
                time = start
        path = np.array(hops, dtype=np.int64).reshape(-1, 4)[::-1]
        return path[path[:, 3] > path[:, 2]]

    def _last_wait(self, track: int, time: int, start: int, seen: dict[int, int]) -> tuple[int, Place]:
        """Until when a thread waited last before a time, and for what. Each wait is used once, so paths end."""
        times, ends, places = self._waits.get(track, _NO_WAITS)
        wait = bisect_right(times, time, hi=seen.get(track, len(times))) - 1
        seen[track] = max(wait, 0)
        return (max(start, ends[wait]), places[wait]) if wait >= 0 else (start, _NOWHERE)

    def _before(self, piece: int, start: int, main: int | None) -> tuple[int, Place]:
        """What held a piece of work up, and until when."""
        via = self._via[piece]
        if via == NOTHING or (via == HOST and main is None):
            return start, _NOWHERE
        at = max(start, self._at[piece])
        if via == LAUNCH:
            return at, (THREAD, self._track[self._source[piece]])
        if via == HOST:
            assert main is not None
            return at, (THREAD, main)
        return at, (WORK, self._source[piece])
