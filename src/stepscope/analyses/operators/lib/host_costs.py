"""What some operators cost the host, in time of a steady step."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import HostTree, host_tree
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.run import Run

__all__ = ["HostCost", "TracedCalls", "traced_calls"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TracedCalls:
    """The host's calls of a rank within its traced steps: `rows` of `tree.frame`, of `steps` traced steps.

    `traced` is their mean length and `step` that of the steady steps, both in ns: recording slows the former down.
    """

    rank: int
    tree: HostTree
    rows: Ints
    steps: int
    traced: float
    step: float

    def cost(self, chosen: npt.NDArray[np.bool_], *, alone: bool = False) -> "HostCost":
        """Of the chosen rows of `tree.frame` the outermost, or what each takes itself where `alone`."""
        mine = self.rows[chosen[self.rows]]
        durations = (self.tree.frame["end"] - self.tree.frame["start"]).to_numpy()
        times = self.tree.nesting.self_time[mine] if alone else durations[mine]
        if not alone:
            times = times[~_inside(self.tree.nesting.parent, mine, chosen)]
        share = float(times.sum()) / self.steps / self.traced if self.traced else 0.0
        return HostCost(rank=self.rank, calls=len(mine) / self.steps, time=share * self.step, step=self.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCost:
    """Calls per step, and their time in ns of a steady step."""

    rank: int
    calls: float
    time: float
    step: float


def traced_calls(run: Run) -> tuple[TracedCalls, ...]:
    """One for each rank with traced steps: for functions of `Run.per_rank`, as it holds all calls of the ranks.

    Raises MissingData without host events or steady steps.
    """
    return run.once(_traced_calls)


def _traced_calls(run: Run) -> tuple[TracedCalls, ...]:
    tree, means = host_tree(run), enough_steps(run).group_by("rank").agg(pl.col("duration").mean())
    marks = tree.frame.filter(pl.Series(tree.steps)).select("rank", "start", "end").sort("rank", "start")
    found = []
    for rank, step in means.sort("rank").iter_rows():
        own = marks.filter(rank=rank)
        if own.is_empty() or not step:
            continue
        starts, ends = own["start"].to_numpy(), own["end"].to_numpy()
        begins = tree.frame["start"].to_numpy()
        at = np.searchsorted(starts, begins, side="right") - 1
        inside = (at >= 0) & (begins < ends[np.maximum(at, 0)]) & (tree.frame["rank"] == rank).to_numpy()
        length = float((own["end"] - own["start"]).sum())
        found.append(
            TracedCalls(
                rank=rank, tree=tree, rows=np.flatnonzero(inside), steps=len(own), traced=length / len(own), step=step
            )
        )
    return tuple(found)


def _inside(parent: Ints, rows: Ints, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which rows have a chosen one around them."""
    above, found = parent[rows].copy(), np.zeros(len(rows), dtype=np.bool_)
    while (above >= 0).any():
        known = above >= 0
        found[known] |= chosen[above[known]]
        above[known] = parent[above[known]]
    return found
