"""Kernels by name, launch shape and operator.

One row is a kernel name on a device, with the operator that started it, its grid, block, registers and shared memory.
What the trace does not hold of these is null, and kernels without it are one row. Figures are those of `kernels`: times
in ns, means weighted by duration. All kernels count, inside and outside of steps. So the calls of a name add up to
those in `kernels`. Definition: the kernel view of the TensorBoard plugin, grouped by kernel properties and operator
name.
"""

import polars as pl

from stepscope.analyses.lib.kernel_figures import DEVICE, FIGURES, figures, kernel_work
from stepscope.analyses.lib.result_tables import RANK, shaped
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import TABLES, Column

_SHAPE = tuple(column for column in TABLES["device"] if column.name in ("grid", "block", "registers", "shared_memory"))
COLUMNS = (
    RANK,
    DEVICE,
    Column("name", pl.String, None, "kernel"),
    Column("operator", pl.String, None, "innermost operator or annotation around the launch; null: none known"),
    *_SHAPE,
    *FIGURES,
)
_KEYS = ("rank", "device", "name", "operator", *(column.name for column in _SHAPE))


def compute(run: Run) -> pl.DataFrame:
    """Rows by total time, longest first. Raises MissingData without kernels."""
    rows = figures(kernel_work(run, *(column.name for column in _SHAPE)), _KEYS)
    order = {"rank": False, "device": False, "total": True, **dict.fromkeys(_KEYS[2:], False)}
    return shaped(rows.sort(*order, descending=list(order.values())), COLUMNS)


LEADING = (
    "name",
    "calls",
    "total",
    "share",
    "mean",
    "grid",
    "block",
    "registers",
    "occupancy",
    "operator",
    "tensor_cores",
)
ANALYSIS = kernel_launches = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
