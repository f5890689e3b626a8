"""Operators by name and by the shapes and types of their inputs.

One row is an operator name of a rank with one list of input shapes and types, as the profiler writes them. A scalar, or
what is no tensor, has the shape []. Figures are those of `operators`; an operator inside one of the same name, shapes
and types counts its time once. Shapes are null in calls for which none were recorded. Definition: the operator view of
the TensorBoard plugin, grouped by operator and input shape; types are in addition.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import RANK, shaped
from stepscope.analyses.operators.lib.operator_calls import operator_calls
from stepscope.analyses.operators.lib.operator_groups import FIGURES, grouped, in_order
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("name", pl.String, None, "operator"),
    Column("input_dims", pl.String, None, "shapes of the inputs, JSON; null: not recorded"),
    Column("input_types", pl.String, None, "types of the inputs, JSON; null: not recorded"),
    *FIGURES,
)
_SHAPES = ("input_dims", "input_types")
_RECORD_SHAPES = (
    "record them with the traced window: `stepscope run --trace 10:13 --with shapes -- COMMAND` "
    "(record_shapes=True of torch.profiler)"
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by device_self, then host_self, largest first. Raises MissingData without recorded shapes."""
    calls = operator_calls(run)
    shapes = run.optional("host", *_SHAPES)[calls.tree.frame["host_row"].gather(calls.rows)]
    if shapes["input_dims"].null_count() == shapes.height:
        raise MissingData("shapes of operators' inputs", how=_RECORD_SHAPES)
    rows = grouped(run, calls.figures.select("rank", "name").hstack(shapes))
    rows = rows.filter(pl.col("input_dims").is_not_null().any().over("rank"))  # ranks with shapes
    return shaped(in_order(rows, "name", *_SHAPES), COLUMNS)


LEADING = ("name", "input_dims", "calls", "host_self", "device_self", "host_total", "device_total", "input_types")
ANALYSIS = operators_by_shape = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
