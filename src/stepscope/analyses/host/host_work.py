"""Python time and operator time of each phase.

One row is a phase of a rank (data_wait, forward, backward, optimizer, other), summed over the traced steps. Times are
ns. in_operators is the part of the phase in which an operator computed on a thread that works for it. For backward that
is any thread of the process, else the step's own. An operator of less than COMPUTES, such as `item`, `select` or `view`
in a loop, is mostly its own call. The rest, `outside`, is Python, such calls, and waiting. `launches` counts the
runtime and driver calls inside the phase that started device work; null without device work in the rank.
"""

from collections.abc import Iterator
from functools import cache, partial
from itertools import groupby

import numpy as np
import polars as pl

from stepscope.analyses.lib.host_events import host_tree
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE, by_rank, shaped, table
from stepscope.analyses.lib.trace_phases import PHASES, TracedStep, traced_steps
from stepscope.core.errors import MissingData
from stepscope.core.intervals import Spans, overlap_each, spans, total, union
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COMPUTES = 10_000  # ns: to call the smallest operator takes 1 to 5 under a profiler

COLUMNS = (
    RANK,
    Column("phase", pl.String, None, "data_wait, forward, backward, optimizer or other"),
    Column("duration", pl.Int64, "ns", "time in the phase"),
    Column("in_operators", pl.Int64, "ns", "part of it with an operator that computes: of 10 µs or more"),
    Column("outside", pl.Int64, "ns", "duration - in_operators"),
    Column("launches", pl.Int64, "count", "calls that started device work"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and phase. Raises MissingData without a trace that marks steps."""
    steps = traced_steps(run)
    if not steps:
        raise MissingData("traced steps", how=RECORD_TRACE)
    tree = host_tree(run)
    operators = tree.frame.select("track", "start", "end").filter(tree.operators)
    operators = operators.filter(pl.col("end") - pl.col("start") >= COMPUTES)
    calls, rows = _launch_starts(run), []
    own = cache(partial(_operators, operators, tree.threads))
    for phase, step, time in _times(steps):
        inside = int(overlap_each(time, own(step.rank, step.pid, step.thread, phase == "backward")).sum())
        rows.append((step.rank, phase, total(time), inside, total(time) - inside, _count(time, calls.get(step.rank))))
    sums = (
        table(rows, COLUMNS)
        .group_by("rank", "phase", maintain_order=True)
        .agg(
            pl.col("duration", "in_operators", "outside").sum(),
            pl.when(pl.col("launches").is_not_null().any()).then(pl.col("launches").sum()),
        )
    )
    return shaped(sums, COLUMNS)


def _times(steps: tuple[TracedStep, ...]) -> Iterator[tuple[str, TracedStep, Spans]]:
    """Each phase of each thread that holds steps, with one of its steps and the phase's time in all of them."""
    for _, group in groupby(steps, key=lambda step: (step.rank, step.pid, step.thread)):
        of_thread = tuple(group)
        for phase in PHASES:
            yield phase, of_thread[0], np.concatenate([step.phases[phase] for step in of_thread])


def _operators(operators: pl.DataFrame, threads: pl.DataFrame, rank: int, pid: str, thread: str, on_any: bool) -> Spans:
    """When any operator was running on a thread, or on any of its process."""
    own = (pl.col("rank") == rank) & (pl.col("pid") == pid)
    if not on_any:
        own &= pl.col("thread") == thread
    return union(spans(operators.filter(pl.col("track").is_in(threads.filter(own)["track"].implode()))))


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
    launched = np.zeros(found.tree.frame.height, dtype=np.bool_)
    launched[found.call[found.call >= 0]] = True
    calls = found.tree.frame.select("rank", "start").filter(pl.Series(launched))
    return none | {rank: np.sort(part["start"].to_numpy(), kind="stable") for rank, part in by_rank(calls).items()}


def _count(time: Spans, starts: np.typing.NDArray[np.int64] | None) -> int | None:
    if starts is None:
        return None
    edges = np.searchsorted(starts, time)
    return int((edges[:, 1] - edges[:, 0]).sum())


ANALYSIS = host_work = Analysis(compute=compute, columns=COLUMNS, scope="rank")
