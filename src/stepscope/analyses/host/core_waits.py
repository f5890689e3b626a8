"""How long each rank waited for a core while it trained, and who had the cores.

One row is a rank. `waited` is the part of a steady step (ns) in which its main thread was ready but had no core. It is
the scheduler's own count, the second field of Linux's /proc/PID/schedstat, read once a second. Waits of other threads
are not in it. `job` and `others` are the cores that the job, and the rest of the machine, used meanwhile on average.
`cores` is what the job may use.
"""

import polars as pl

from stepscope.analyses.lib.cores import job_cores
from stepscope.analyses.lib.load_samples import mean_within
from stepscope.analyses.lib.result_tables import RANK, table
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "UNCOUNTED", "core_waits"]

UNCOUNTED = 2
"""The most that free cores save, in times of `waited`: waits of operator threads come on top; measured 1.2 to 1.7."""

COLUMNS = (
    RANK,
    Column("waited", pl.Int64, "ns", "time per steady step in which the main thread waited for a core, mean"),
    Column("step", pl.Int64, "ns", "steady step, mean"),
    Column("job", pl.Float64, "count", "cores used by the job, mean"),
    Column("others", pl.Float64, "count", "cores used by other processes, mean"),
    Column("cores", pl.Float64, "count", "cores that the job may use"),
)
_HOW = "run it on Linux with `stepscope run -- COMMAND` for more than a second after warm-up"


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank. Raises MissingData where nobody watched the cores, or the job was too short."""
    steps = enough_steps(run).group_by("rank").agg(
        pl.col("start").min(), pl.col("end").max(), pl.col("duration").mean()
    )  # fmt: skip
    cores, rows = job_cores(run), []
    for rank, start, end, step in steps.sort("rank").iter_rows():
        waited = mean_within(run, "core wait", start, end, pl.col("rank") == rank)
        job, others = (mean_within(run, what, start, end, pl.lit(True)) for what in ("job CPU", "other CPU"))
        if waited is not None and job is not None and others is not None and cores:
            rows.append((rank, int(waited * step), int(step), job, others, cores))
    if not rows:
        raise MissingData("record of core waits", how=_HOW)
    return table(rows, COLUMNS)


ANALYSIS = core_waits = Analysis(compute=compute, columns=COLUMNS)
