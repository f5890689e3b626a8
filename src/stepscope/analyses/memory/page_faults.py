"""How often each rank takes pages of memory from the system while it trains, and what the kernel computes for it.

One row is a rank. `faults` are minor page faults of a steady step: the first touch of a page that the system has just
given. `kernel` is the CPU time (ns) that the kernel used for the process in a steady step, on all its threads. Page
faults are part of it; so are reading, writing and starting threads. Both are from Linux's /proc/PID/stat, once a
second.
"""

import polars as pl

from stepscope.analyses.lib.load_samples import mean_within
from stepscope.analyses.lib.result_tables import RANK, table
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "page_faults"]

COLUMNS = (
    RANK,
    Column("faults", pl.Float64, "count", "minor page faults per steady step, mean"),
    Column("kernel", pl.Int64, "ns", "CPU time in the kernel per steady step, mean"),
    Column("step", pl.Int64, "ns", "steady step, mean"),
)
_SECOND = 1e9  # ns
_HOW = "run it on Linux with `stepscope run -- COMMAND` for more than a second after warm-up"


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank. Raises MissingData where nobody counted, or the job was too short."""
    steps = enough_steps(run).group_by("rank").agg(
        pl.col("start").min(), pl.col("end").max(), pl.col("duration").mean()
    )  # fmt: skip
    rows = []
    for rank, start, end, step in steps.sort("rank").iter_rows():
        own = pl.col("rank") == rank
        faults, kernel = (mean_within(run, what, start, end, own) for what in ("page faults", "kernel CPU"))
        if faults is not None and kernel is not None:
            rows.append((rank, faults * step / _SECOND, int(kernel * step), int(step)))
    if not rows:
        raise MissingData("page faults of the job", how=_HOW)
    return table(rows, COLUMNS)


ANALYSIS = page_faults = Analysis(compute=compute, columns=COLUMNS)
