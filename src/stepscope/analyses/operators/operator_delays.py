"""What operators launch, and how long it takes from their start to the first launch and to the first work.

One row is an operator and the device work that one call launches itself, in order of launch. Work of operators inside
does not count. Of more than 64, the first 64 are told apart. Times are ns, means over the calls: `launch_delay` from
the start of the operator to that of its first launch, which is time of the host (checks, choosing a kernel, allocating
memory); `start_delay` from there to the start of the work, which is the queue and the driver. Definition: HTA's
operator kernels and delays, of operators of all names, on their own thread.
"""

import numpy as np
import polars as pl

from stepscope.analyses.device.lib.sequences import by_group, launched_work_of, operator_above, sequences, spelled
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE_ON_GPU, shaped
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("operator", pl.String, None, "innermost operator around the launches"),
    Column("length", pl.Int64, "count", "kernels, copies and sets that one call launches"),
    Column("calls", pl.Int64, "count", "how often it launched exactly these"),
    Column("launch_delay", pl.Float64, "ns", "mean time from the start of the operator to its first launch"),
    Column("start_delay", pl.Float64, "ns", "mean time from the start of that launch to the start of its work"),
    Column("device_total", pl.Int64, "ns", "sum of the durations of the work"),
    Column("sequence", pl.List(pl.String), None, "names in order of launch"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, the most calls first. Raises MissingData without operators that launch work."""
    found = launches(run)
    above = operator_above(run) if found.tree is not None else np.empty(0, dtype=np.int64)
    rows = np.nonzero(found.call >= 0)[0]
    rows = rows[above[found.call[rows]] >= 0]
    if found.tree is None or not len(rows):
        raise MissingData("operators that launch device work", how=RECORD_TRACE_ON_GPU)
    work = launched_work_of(run, found.tree, rows, above[found.call[rows]])
    at, length = by_group(work)
    operator = work.group[at]
    launched = work.launched[at]
    calls = pl.DataFrame(
        {
            "rank": work.rank[at],
            "operator": found.tree.name.gather(operator),
            "key": sequences(work, at, length),
            "length": length,
            "at": at,
            "first": np.minimum.reduceat(work.index, at),
            "device": np.add.reduceat(work.end - work.start, at),
            "launch_delay": launched - found.tree.frame["start"].to_numpy()[operator],
            "start_delay": work.start[at] - launched,
        }
    )
    sums = calls.group_by("rank", "operator", "key", "length").agg(
        pl.col("at").first(),
        pl.col("first").min(),
        pl.col("launch_delay", "start_delay").mean(),
        calls=pl.len(),
        device_total=pl.col("device").sum(),
    )
    sums = sums.sort("rank", "calls", "first", descending=[False, True, False])
    names = spelled(run, work, sums["at"].to_numpy(), sums["length"].to_numpy())
    return shaped(sums.with_columns(sequence=names), COLUMNS)


LEADING = ("operator", "length", "calls", "launch_delay", "start_delay", "device_total", "sequence")
ANALYSIS = operator_delays = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
