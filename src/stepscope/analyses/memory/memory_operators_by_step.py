"""Memory that each operator allocates and frees, step by step.

One row is an operator name on a device in a step, as in `memory_operators`, from the events of that step only. An
operator without an event in a step has no row. Rows without a step are of the time outside of steps. Summed over a
range of steps they are the memory view of that time. Definition: the memory view of the TensorBoard plugin with a range
selected.
"""

import polars as pl

from stepscope.analyses.lib.markers import step_markers
from stepscope.analyses.lib.result_tables import shaped
from stepscope.analyses.memory.lib.memory_events import BY_DEVICE, DEVICE, DEVICE_COLUMNS, named_device
from stepscope.analyses.memory.lib.operator_sums import SIZES, by_operator
from stepscope.analyses.memory.lib.peak import peaks
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    *DEVICE_COLUMNS,
    Column("step", pl.Int64, None, "number of the step; null: outside of steps"),
    Column("name", pl.String, None, "operator; null: outside of all operators"),
    Column("calls", pl.Int64, "count", "how often it ran; null: outside of all operators"),
    *SIZES,
)
MARK_STEPS = (
    "mark them in the trace by calling the profiler's step() after each, or see `stepscope show memory_operators`"
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, device (the CPU last), step and bytes. Raises MissingData without memory, operators or steps."""
    rows = by_operator(run, "step")
    marked = step_markers(run)["rank"].unique()
    if marked.is_empty():
        raise MissingData("steps in the trace", how=MARK_STEPS)
    rows = rows.join(peaks(run).select("key", *DEVICE), on="key").with_columns(named_device())
    rows = rows.filter(pl.col("rank").is_in(marked.implode()))
    order = (*BY_DEVICE, "step", "allocated_self", "allocated_total", "name")
    return shaped(rows.sort(*order, descending=[False] * 4 + [True, True, False], nulls_last=True), COLUMNS)


LEADING = (
    "step",
    "name",
    "device_type",
    "calls",
    "allocated_self",
    "increase_self",
    "allocations_self",
    "allocated_total",
    "increase_total",
)
ANALYSIS = memory_operators_by_step = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
