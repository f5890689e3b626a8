"""Memory that each operator allocates and frees.

One row is an operator name on a device. An event belongs to the innermost operator at its time on its thread;
annotations are none. `increase` is allocated less freed and may be negative; the totals count also the operators
inside, each event once per name. Events outside of all operators are in the row without a name. So the column
increase_self adds up to the change of the whole recording. `calls` counts all calls of the operator on its rank, also
those that allocate nothing. Per step: `memory_operators_by_step`. Definition: the memory view of the TensorBoard
plugin.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import shaped
from stepscope.analyses.memory.lib.memory_events import BY_DEVICE, DEVICE, DEVICE_COLUMNS, named_device
from stepscope.analyses.memory.lib.operator_sums import SIZES, by_operator
from stepscope.analyses.memory.lib.peak import peaks
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    *DEVICE_COLUMNS,
    Column("name", pl.String, None, "operator; null: outside of all operators"),
    Column("calls", pl.Int64, "count", "how often it ran; null: outside of all operators"),
    *SIZES,
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and device, the CPU last, then by bytes. Raises MissingData without memory or operators."""
    rows = by_operator(run).join(peaks(run).select("key", *DEVICE), on="key").with_columns(named_device())
    order = (*BY_DEVICE, "allocated_self", "allocated_total", "name")
    return shaped(rows.sort(*order, descending=[False] * 3 + [True, True, False], nulls_last=True), COLUMNS)


LEADING = (
    "name",
    "device_type",
    "calls",
    "allocated_self",
    "increase_self",
    "allocations_self",
    "allocated_total",
    "increase_total",
    "device",
)
ANALYSIS = memory_operators = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
