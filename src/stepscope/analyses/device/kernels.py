"""Kernels by name.

One row is a kernel name on a device. Times are ns. A sum of durations counts parallel kernels twice. blocks_per_sm and
occupancy are means weighted by duration, over the kernels that carry them. They are null if none does. `operator` is
the one that started most of the calls. It is null where only the step is known. All kernels count, inside and outside
of steps, and each that was replayed from a device graph. Definition: the kernel view of the TensorBoard plugin, which
takes kernels without a figure as 0 in its means; the deviation is that of HTA.
"""

import polars as pl

from stepscope.analyses.lib.kernel_figures import DEVICE, FIGURES, figures, kernel_work
from stepscope.analyses.lib.result_tables import RANK, shaped
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    DEVICE,
    Column("name", pl.String, None, "kernel"),
    *FIGURES,
    Column("operator", pl.String, None, "operator or annotation that started most of its calls; null: none known"),
)
KEYS = ("rank", "device", "name")


def compute(run: Run) -> pl.DataFrame:
    """Rows by total time, longest first. Raises MissingData without kernels."""
    kernels = kernel_work(run)
    counts = kernels.drop_nulls("operator").group_by(*KEYS, "operator").len()
    counts = counts.with_columns(pl.col("name", "operator").cast(pl.String))
    most = counts.sort("len", "operator", descending=[True, False]).unique(KEYS, keep="first", maintain_order=True)
    rows = figures(kernels, KEYS).join(most, on=KEYS, how="left", nulls_equal=True)
    return shaped(rows.sort("rank", "device", "total", "name", descending=[False, False, True, False]), COLUMNS)


LEADING = ("name", "calls", "total", "share", "mean", "operator", "occupancy", "tensor_cores", "max")
ANALYSIS = kernels = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
