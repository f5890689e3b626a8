"""Time that chosen operators take on the host of a job without a GPU, per traced step."""

from dataclasses import dataclass

import polars as pl

from stepscope.analyses.lib.host_events import host_tree
from stepscope.analyses.lib.markers import step_markers
from stepscope.core.intervals import intersect, spans, total, union
from stepscope.core.run import Run
from stepscope.rules.operators.lib.launchers import Bools

__all__ = ["OperatorTime", "operator_time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTime:
    """Time of chosen operators of a rank and its step, in ns, and how many run in a step."""

    rank: int
    time: float
    step: float
    count: float


def operator_time(run: Run, marked: Bools) -> tuple[OperatorTime, ...]:
    """Each rank with marked rows of the tree; without marked steps all operators of a trace count as one step."""
    tree = host_tree(run)
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
        time = total(intersect(spans(mine), window)) / count
        found.append(
            OperatorTime(rank=int(str(rank)), time=time, step=total(window) / count, count=mine.height / count)
        )
    return tuple(sorted(found, key=lambda one: one.rank))
