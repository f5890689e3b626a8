"""Where the time of a trace without steps goes when the CPU computes: all of it counts as one step."""

import numpy as np
import polars as pl

from stepscope.analyses.bound.lib.bound_shares import Shares
from stepscope.analyses.bound.lib.device_shares import SHORTEST, inflated_by
from stepscope.analyses.host.lib.recording_cost import recording_costs
from stepscope.analyses.lib.host_events import is_operator
from stepscope.analyses.lib.markers import data_waits, step_markers
from stepscope.analyses.lib.result_tables import RECORD_TRACE
from stepscope.analyses.steps.steps import HOW_STEPS
from stepscope.core.errors import MissingData
from stepscope.core.intervals import Spans, spans, subtract, total, union
from stepscope.core.run import Run

__all__ = ["whole_recordings"]


def whole_recordings(run: Run) -> tuple[Shares, ...]:
    """One row for each rank with a millisecond from its first to its last operator.

    Raises MissingData where steps are marked, which are another matter, and without such a rank.
    """
    rows: list[Shares] = []
    if not run.rows("steps") and step_markers(run).is_empty():
        operators = run.where("host", is_operator(), "rank", "start", "end")
        waits = data_waits(run)
        for (rank,), own in operators.group_by("rank", maintain_order=True):
            waited = union(spans(waits.filter(pl.col("rank") == rank)))
            computing = union(spans(own))
            if len(computing) and computing[-1, 1] - computing[0, 0] >= SHORTEST:
                rows.append(_of_rank(run, int(str(rank)), computing, waited))
    if not rows:
        raise MissingData("training steps", how=HOW_STEPS)
    return tuple(sorted(rows, key=lambda row: row.rank))


def _of_rank(run: Run, rank: int, computing: Spans, waits: Spans) -> Shares:
    window = np.array([[computing[0, 0], computing[-1, 1]]], dtype=np.int64)
    step, busy = float(total(window)), total(subtract(computing, waits))
    waited = total(window) - total(subtract(window, waits))
    host = step - waited - busy
    recorded, until = recording_costs(run)[rank].until(window[0])
    return Shares(
        rank=rank, step=step, input=waited / step, host=host / step, named_host=0.0, device=busy / step,
        communication=None, memory=None, lacks="", how=RECORD_TRACE,
        recording=min(until - recorded, host) / step, slowed_by=inflated_by(run, rank),
    )  # fmt: skip
