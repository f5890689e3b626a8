"""Operators by name: how often they ran, their time on the host and on the device, and their use of tensor cores.

One row is an operator name of a rank. Times are ns. Host totals are durations of the outermost calls of a name: an
operator inside one of its own name counts once. host_self is without the operators, annotations and runtime calls
inside. device_self is the time of the work that the operator itself started; device_total includes that of the
operators inside it. device_busy is the length of their union. Kernels that a launch replays from a device graph all
count. An operator is eligible if it, or one inside, multiplies matrices by its name. So is one that started a kernel
that used tensor or matrix cores. FLOPs are from shapes, so they need recorded ones. Device columns are null in a rank
of whose device work no launch was recorded. Definition: the operator view of the TensorBoard plugin, without its
merging of nested calls of one name.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import RANK, shaped
from stepscope.analyses.operators.lib.operator_calls import operator_calls
from stepscope.analyses.operators.lib.operator_groups import FIGURES, grouped, in_order
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (RANK, Column("name", pl.String, None, "operator"), *FIGURES)


def compute(run: Run) -> pl.DataFrame:
    """Rows by device_self, then host_self, largest first. Raises MissingData without operators."""
    calls = operator_calls(run)
    return shaped(in_order(grouped(run, calls.figures.select("rank", "name")), "name"), COLUMNS)


LEADING = (
    "name",
    "calls",
    "host_total",
    "host_self",
    "device_total",
    "device_self",
    "per_step",
    "tensor_core_share",
    "flops",
)
ANALYSIS = operators = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
