"""Which host call started each piece of device work, and inside which operator.

One row is a kernel, copy or set. The call is the runtime or driver call of the same process and correlation id. The
operator is the innermost operator or annotation around the call on its thread. External ids are not used: some
profilers fill them with other numbers (`attribution_coverage` says how far they agree).
"""

import numpy as np
import polars as pl

from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.launch_calls import Launches, launches
from stepscope.analyses.lib.result_tables import RANK, at_rows, shaped
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("pid", pl.String, None, "process of the device work"),
    Column("index", pl.Int64, None, "`device.index` of the work"),
    Column("launch", pl.Int64, None, "`host.index` of the call that started it; null: no such call in the trace"),
    Column("operator", pl.Int64, None, "`host.index` of the innermost operator or annotation; null: none"),
    Column("how", pl.String, None, "what the operator was found by: time; null without an operator"),
)


def compute(run: Run) -> pl.DataFrame:
    """One row per piece of device work, in the order of `device`. Raises MissingData without device work."""
    found = launches(run)
    how = pl.when(pl.col("operator").is_not_null()).then(pl.lit("time"))
    work = device_work(run, "pid", "index").select("rank", "pid", "index")
    frame = work.with_columns(launch=_indices(found, found.call), operator=_indices(found, found.operator))
    return shaped(frame.with_columns(how=how), COLUMNS)


def _indices(found: Launches, rows: np.typing.NDArray[np.int64]) -> pl.Series:
    """`host.index` of rows of the host tree, null for -1."""
    if found.tree is None:
        return pl.Series([None] * len(rows), dtype=pl.Int64)
    return at_rows(found.tree.frame["index"], rows)


ANALYSIS = attribution = Analysis(compute=compute, columns=COLUMNS, scope="rank")
