"""The critical path of a stretch of time, walked backwards from its end: at each point, what was waited for last?

A host thread is followed back to the last time it went on because of something else (`_path_waits`); a piece of device
work to what held it up (`_path_work`). The walk takes a step for each of these, whatever else the trace holds.
"""

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from stepscope.analyses.critical_path.lib.path_waits import Waits
from stepscope.analyses.critical_path.lib.path_work import HOST, LAUNCH, NOTHING, Work
from stepscope.analyses.lib.host_order import HostOrder
from stepscope.native import _scanner

__all__ = [
    "DELAY",
    "NOTHING_KNOWN",
    "NOWHERE",
    "THREAD",
    "WORK",
    "Causes",
    "causes",
    "on_thread",
    "walk",
]

THREAD, WORK, DELAY, NOTHING_KNOWN = range(4)
"""What a path goes through: a thread, work of a device, the delay before work, a time of which nothing is known."""

NOWHERE = -1
"""The place of a path of which nothing is known. Other places are rows of work, and threads: see `on_thread`."""

Ints = npt.NDArray[np.int64]
Track = TypeVar("Track", int, Ints)
_NONE = (np.empty(0, dtype=np.int64),) * 3


class Causes(NamedTuple):
    """Why threads went on and work began when they did; causes are places.

    The waits of thread t are those from `first[t]` to `first[t + 1]`, in order of `time`: it went on because `cause`
    had ended, `at` a time. Work began at `start`; `holder` held it up until `held`.
    """

    first: Ints
    time: Ints
    at: Ints
    cause: Ints
    start: Ints
    held: Ints
    holder: Ints


def on_thread(track: Track) -> Track:
    """The place that is a thread; the other way round, the thread of such a place."""
    return -2 - track


def causes(order: HostOrder | None, waits: Waits | None, work: Work | None, mains: dict[int, int]) -> Causes:
    """All causes of a run. Host and device may be missing; `mains` are the main threads of ranks.

    The main thread of its rank is taken to have launched work whose launch is unknown.
    """
    first, of_waits, of_work = np.zeros(1, dtype=np.int64), _NONE, _NONE
    if order is not None and waits is not None:
        first = np.searchsorted(waits.track, np.arange(len(order.tracks) + 1))
        of_waits = waits.time, waits.at, np.where(waits.work >= 0, waits.work, on_thread(waits.thread))
    if work is not None:
        of_work = work.start, work.at, _holders(order, work, mains)
    return Causes(*(np.ascontiguousarray(column, dtype=np.int64) for column in (first, *of_waits, *of_work)))


def _holders(order: HostOrder | None, work: Work, mains: dict[int, int]) -> Ints:
    holder = np.where(work.via == NOTHING, NOWHERE, work.source)
    if order is not None:
        launched = work.via == LAUNCH
        holder[launched] = on_thread(order.track[work.source[launched]])
    by_host, rank_of = work.via == HOST, work.frame["rank"].to_numpy()
    holder[by_host] = NOWHERE
    for rank, track in mains.items():
        holder[by_host & (rank_of == rank)] = on_thread(track)
    return holder


def walk(causes: Causes, place: Ints, start: Ints, end: Ints) -> Ints:
    """The paths from each place at its end back to its start, in order of paths and time; the hops of each fill it.

    The rows of the result are the path, what it goes through, the thread or row of work, from and until.
    """
    return np.frombuffer(_scanner.walk(*causes, place, start, end), dtype=np.int64).reshape(5, -1)
