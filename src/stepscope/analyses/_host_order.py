"""Host events of each thread in order of time, and when each thread was at work at all."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses._host import CALLS, HostTree, host_tree, is_operator
from stepscope.core.intervals import Spans, union
from stepscope.core.run import Run

__all__ = ["HostOrder", "host_order"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class HostOrder:
    """Rows of `tree.frame` by track and start, outer ones first; those of track t are `rows[first[t] : first[t + 1]]`.

    All others follow the rows of the tree, not this order. `names` holds each name once, `name` is its place there.
    """

    tree: HostTree
    rows: Ints
    first: Ints
    track: Ints
    start: Ints
    end: Ints
    names: pl.Series
    name: Ints
    is_call: Bools
    is_operator: Bools

    def of_track(self, track: int) -> Ints:
        """Rows of one thread in order of time."""
        return self.rows[self.first[track] : self.first[track + 1]]

    def named(self, test: Callable[[str], bool]) -> Bools:
        """The rows whose name passes a test, which is asked once for each name."""
        return np.array([test(name) for name in self.names], dtype=np.bool_)[self.name]

    def passing(self, test: pl.Expr) -> Bools:
        """As `named`, for a test of the column `name`."""
        passed = self.names.rename("name").to_frame().select(test).to_series().to_numpy()
        return np.asarray(passed, dtype=np.bool_)[self.name]

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
    track, kind = tree.frame["track"].to_numpy(), tree.frame["kind"]
    start = tree.frame["start"].to_numpy()
    rows, first = _by_time(track, start, tree.nesting.depth)
    names = tree.frame["name"].unique(maintain_order=True)
    places = pl.Series(np.arange(len(names)))
    name = tree.frame["name"].replace_strict(names, places, return_dtype=pl.Int64).to_numpy()
    true_operator = (
        names.to_frame("name").with_columns(kind=pl.lit("operator")).select(is_operator()).to_series().to_numpy()
    )
    return HostOrder(
        tree=tree,
        rows=rows,
        first=first,
        track=track,
        start=start,
        end=tree.frame["end"].to_numpy(),
        names=names,
        name=name,
        is_call=kind.is_in(CALLS).to_numpy(),
        is_operator=(kind == "operator").to_numpy() & true_operator[name],
    )


def _by_time(track: Ints, start: Ints, depth: Ints) -> tuple[Ints, Ints]:
    """Rows by track, start and depth, and where each track begins. Traces are mostly in order, so this is fast."""
    rows = np.argsort(track, kind="stable")
    first = np.searchsorted(track[rows], np.arange(int(track.max()) + 2))
    for begin, end in pairwise(first.tolist()):
        of_track = rows[begin:end]
        of_track = of_track[np.argsort(start[of_track], kind="stable")]
        if (np.diff(start[of_track]) == 0).any():
            of_track = of_track[np.lexsort((depth[of_track], start[of_track]))]
        rows[begin:end] = of_track
    return rows, first
