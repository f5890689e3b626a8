"""Python time and operator time of each phase.

One row is a phase of a rank (data_wait, forward, backward, optimizer, other), summed over the traced steps. Times are
ns. in_operators is the part of the phase in which an operator ran on a thread that works for it: any thread of the
process for backward, the step's own thread otherwise. The rest, `outside`, is Python, and waiting in it. `launches`
counts the runtime and driver calls inside the phase that started device work; null without device work in the rank.
"""

import numpy as np
import polars as pl

from stepscope.analyses._host import host_tree, is_operator
from stepscope.analyses._launches import launches
from stepscope.analyses._tables import RANK, RECORD_TRACE, by_rank, shaped, table
from stepscope.analyses._trace_phases import TracedStep, traced_steps
from stepscope.core.errors import MissingData
from stepscope.core.intervals import Spans, intersect, spans, total, union
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("phase", pl.String, None, "data_wait, forward, backward, optimizer or other"),
    Column("duration", pl.Int64, "ns", "time in the phase"),
    Column("in_operators", pl.Int64, "ns", "part of it with an operator"),
    Column("outside", pl.Int64, "ns", "duration - in_operators"),
    Column("launches", pl.Int64, "count", "calls that started device work"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and phase. Raises MissingData without a trace that marks steps."""
    steps = traced_steps(run)
    if not steps:
        raise MissingData("traced steps", how=RECORD_TRACE)
    operators = host_tree(run).frame.filter(is_operator())
    sets: dict[tuple[str, ...], Spans] = {}
    calls, rows = _launch_starts(run), []
    for step in steps:
        for phase, time in step.phases.items():
            inside = total(intersect(time, _operators(operators, step, phase, sets)))
            rows.append(
                (step.rank, phase, total(time), inside, total(time) - inside, _count(time, calls.get(step.rank)))
            )
    sums = (
        table(rows, COLUMNS)
        .group_by("rank", "phase", maintain_order=True)
        .agg(
            pl.col("duration", "in_operators", "outside").sum(),
            pl.when(pl.col("launches").is_not_null().any()).then(pl.col("launches").sum()),
        )
    )
    return shaped(sums, COLUMNS)


def _operators(operators: pl.DataFrame, step: TracedStep, phase: str, sets: dict[tuple[str, ...], Spans]) -> Spans:
    key = (str(step.rank), step.pid) if phase == "backward" else (str(step.rank), step.pid, step.thread)
    if key not in sets:
        own = (pl.col("rank") == step.rank) & (pl.col("pid") == step.pid)
        if phase != "backward":
            own &= pl.col("thread") == step.thread
        sets[key] = union(spans(operators.filter(own)))
    return sets[key]


def _launch_starts(run: Run) -> dict[int, np.typing.NDArray[np.int64]]:
    """For each rank with device work, the starts of the calls that launched it, sorted."""
    try:
        found = launches(run)
    except MissingData:
        return {}
    none: dict[int, np.typing.NDArray[np.int64]] = {
        rank: np.empty(0, dtype=np.int64) for rank in found.work["rank"].unique()
    }
    if found.tree is None:
        return none
    calls = found.tree.frame[np.unique(found.call[found.call >= 0])]
    return none | {rank: np.sort(part["start"].to_numpy()) for rank, part in by_rank(calls).items()}


def _count(time: Spans, starts: np.typing.NDArray[np.int64] | None) -> int | None:
    if starts is None:
        return None
    edges = np.searchsorted(starts, time)
    return int((edges[:, 1] - edges[:, 0]).sum())


ANALYSIS = host_work = Analysis(compute=compute, columns=COLUMNS)
