"""Time that chosen operators take on the host of a job without a GPU, per step."""

from dataclasses import dataclass

import polars as pl

from stepscope.analyses.lib.host_events import host_tree
from stepscope.analyses.lib.markers import step_markers
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.errors import MissingData
from stepscope.core.intervals import intersect, spans, total, union
from stepscope.core.run import Run
from stepscope.rules.operators.lib.launchers import Bools

__all__ = ["OperatorTime", "operator_time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTime:
    """Time of chosen operators of a rank in its `step`, and how many run in it; times in ns.

    The step is the mean steady one, as in the verdict: a traced step is longer, and counts for shares only.
    """

    rank: int
    time: float
    step: float
    count: float


def operator_time(run: Run, marked: Bools) -> tuple[OperatorTime, ...]:
    """Each rank with marked rows of the tree; without marked steps all operators of a trace count as one step."""
    tree, means = host_tree(run), _steady_means(run)
    rows = tree.frame.select("rank", "start", "end").with_columns(marked=marked, operator=tree.operators)
    found = []
    for (rank,), own in rows.group_by("rank", maintain_order=True):
        steps = step_markers(run).filter(pl.col("rank") == rank)
        operators = own.filter("operator")
        if operators.is_empty():
            continue
        window = union(spans(steps)) if steps.height else spans(operators.select(pl.min("start"), pl.max("end")))
        mine = own.filter("marked")
        count = max(steps.height, 1)
        traced = total(window)
        step = means.get(int(str(rank)), traced / count)
        share = total(intersect(spans(mine), window)) / traced if traced else 0.0
        found.append(OperatorTime(rank=int(str(rank)), time=share * step, step=step, count=mine.height / count))
    return tuple(sorted(found, key=lambda one: one.rank))


def _steady_means(run: Run) -> dict[int, float]:
    try:
        return dict(enough_steps(run).group_by("rank").agg(pl.col("duration").mean()).iter_rows())
    except MissingData:
        return {}  # of a trace without steps: all that it shows is one
