"""Host events of each thread in order of time, and when each thread was at work at all."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyses.lib.host_events import HostTree, host_tree
from stepscope.core.intervals import Spans, union
from stepscope.core.run import Run

__all__ = ["HostOrder", "host_order"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class HostOrder:
    """Those of thread t are `tree.nesting.order[first[t] : first[t + 1]]`, by start, outer ones first.

    The other arrays are columns of the tree, in its own order.
    """

    tree: HostTree
    first: Ints
    track: Ints
    start: Ints
    end: Ints

    def of_track(self, track: int) -> Ints:
        """Rows of one thread in order of time."""
        return self.tree.nesting.order[self.first[track] : self.first[track + 1]]

    def busy(self, track: int, chosen: Bools) -> Spans:
        """When a thread was inside of a row that is chosen (of all rows of the tree)."""
        rows = self.of_track(track)
        rows = rows[chosen[rows]]
        return union(np.stack((self.start[rows], self.end[rows]), axis=1))

    @property
    def tracks(self) -> range:
        """Numbers of the threads."""
        return range(len(self.first) - 1)


def host_order(run: Run) -> HostOrder:
    """Order the host tree of a run. Raises MissingData as `host_tree` does."""
    return run.once(_host_order)


def _host_order(run: Run) -> HostOrder:
    tree = host_tree(run)
    track, start, end = (tree.frame[name].to_numpy() for name in ("track", "start", "end"))
    first = np.searchsorted(track[tree.nesting.order], np.arange(tree.threads.height + 1))
    return HostOrder(tree, first, track, start, end)
