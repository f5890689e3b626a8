"""Operators by name and call stack, with the nearest line of the user's own code.

One row is an operator name of a rank called through one stack of Python lines. Stacks are the Python frames around a
call, else the call stack that the profiler wrote with it. Frames of modules and built-in functions do not count.
Operators of the backward pass run without a useful stack. They get the stack of their forward operator, and `backward`
is true. What has no stack is in rows without one, so that nothing is lost. Figures are those of `operators`; what is
inside a call of the same name and stack counts its time once. Definition: the operator view of the TensorBoard plugin,
grouped by operator and call stack; it does not trace backward to forward.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import RANK, shaped
from stepscope.analyses.operators.lib.operator_calls import operator_calls
from stepscope.analyses.operators.lib.operator_groups import FIGURES, grouped, in_order
from stepscope.analyses.operators.lib.operator_stacks import operator_stacks
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("name", pl.String, None, "operator"),
    Column("backward", pl.Boolean, None, "the stack is that of the forward operator"),
    Column("file", pl.String, None, "file of the nearest frame of the user's code; null: none in the stack"),
    Column("line", pl.Int64, None, "line of that frame"),
    Column("function", pl.String, None, "function of that frame"),
    *FIGURES,
    Column("stack", pl.String, None, "frames, innermost first, separated by ';'; null: not recorded"),
)
_RECORD_STACKS = (
    "record them with the traced window: `stepscope run --trace 10:13 --with stacks -- COMMAND` "
    "(with_stack=True of torch.profiler)"
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by device_self, then host_self, largest first. Raises MissingData without recorded stacks."""
    calls, stacks = operator_calls(run), operator_stacks(run)
    if (stacks.number < 0).all():
        raise MissingData("call stacks of operators", how=_RECORD_STACKS)
    keys = calls.figures.select("rank", "name").with_columns(
        number=pl.Series(stacks.number), backward=pl.Series(stacks.backward)
    )
    rows = grouped(run, keys).join(stacks.table, on="number", how="left")
    rows = rows.filter((pl.col("number") >= 0).any().over("rank"))  # ranks with stacks
    return shaped(in_order(rows, "name", "file", "line", "stack", "backward"), COLUMNS)


LEADING = ("name", "file", "line", "calls", "host_total", "device_total", "host_self", "device_self", "function")
ANALYSIS = operators_by_stack = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
