"""Time in forward when no operator runs for long: work of Python that no list of operators shows.

Between two operators of an eager model Python needs some 10 to 100 µs. A gap of LONG_GAP or more is no overhead of
calling operators; something else ran there.
"""

from collections import Counter

import polars as pl

from stepscope.analyses.lib.host_events import THREAD
from stepscope.analyses.lib.trace_phases import TracedStep, traced_steps
from stepscope.core.intervals import clip, spans, subtract, total
from stepscope.core.run import Run

__all__ = ["forward_gaps"]

LONG_GAP = 1_000_000  # ns: ten times the cost of calling the slowest operator from Python under the profiler
_WORK = ("operator", "runtime", "driver")


def forward_gaps(run: Run) -> dict[int, float]:
    """For each rank with traced steps, the share of forward that is long gaps between operators."""
    return run.once(_forward_gaps)


def _forward_gaps(run: Run) -> dict[int, float]:
    work = run.optional("host", *THREAD, "kind", "start", "end").filter(pl.col("kind").is_in(_WORK))
    gaps: Counter[int] = Counter()
    forward: Counter[int] = Counter()
    for step in traced_steps(run):
        own = (pl.col("rank") == step.rank) & (pl.col("pid") == step.pid) & (pl.col("thread") == step.thread)
        gaps[step.rank] += _of_step(work.filter(own), step)
        forward[step.rank] += total(step.phases["forward"])
    return {rank: gaps[rank] / time for rank, time in forward.items() if time}


def _of_step(work: pl.DataFrame, step: TracedStep) -> int:
    operators = clip(spans(work), step.start, step.end)
    if not len(operators):
        return 0  # nothing of this step was recorded: no statement
    gaps = subtract(step.phases["forward"], operators)
    return total(gaps[(gaps[:, 1] - gaps[:, 0]) >= LONG_GAP])
