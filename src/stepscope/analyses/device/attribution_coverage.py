"""How much device time has a known cause.

One row is a rank. Times are ns and sums of durations (work in parallel counts twice). Placed means that `attribution`
found the operator. The profiler's external ids are compared with it. They agree when the launch has the id of the
operator found by time. Otherwise they disagree.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import HostTree
from stepscope.analyses.lib.launch_calls import Launches, launches
from stepscope.analyses.lib.result_tables import RANK, quotient, shaped
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("work", pl.Int64, "ns", "duration of all kernels, copies and sets"),
    Column("placed", pl.Int64, "ns", "part whose operator is known"),
    Column("without_operator", pl.Int64, "ns", "part whose launch is known and lies in no operator"),
    Column("without_launch", pl.Int64, "ns", "part whose launch is not in the trace"),
    Column("unplaced_share", pl.Float64, "ratio", "1 - placed / work; null without any duration"),
    Column(
        "external_agree",
        pl.Int64,
        "count",
        "pieces of work whose launch has the external id of the operator found by time",
    ),
    Column(
        "external_disagree", pl.Int64, "count", "pieces of work whose launch has the external id of another operator"
    ),
)

Bools = npt.NDArray[np.bool_]


def compute(run: Run) -> pl.DataFrame:
    """Rows for ranks with device work. Raises MissingData without device work."""
    found = launches(run)
    agree, disagree = np.zeros(found.work.height, dtype=np.bool_), np.zeros(found.work.height, dtype=np.bool_)
    if found.tree is not None:
        agree, disagree = _compared(found, found.tree)
    frame = found.work.select(
        "rank",
        duration=pl.col("end") - pl.col("start"),
        launched=pl.Series(found.call >= 0),
        owned=pl.Series(found.operator >= 0),
        agree=pl.Series(agree),
        disagree=pl.Series(disagree),
    )
    sums = frame.group_by("rank").agg(
        work=pl.col("duration").sum(),
        placed=pl.col("duration").filter("owned").sum(),
        without_operator=pl.col("duration").filter(pl.col("launched") & ~pl.col("owned")).sum(),
        without_launch=pl.col("duration").filter(~pl.col("launched")).sum(),
        external_agree=pl.col("agree").sum(),
        external_disagree=pl.col("disagree").sum(),
    )
    share = pl.when(pl.col("work") > 0).then(1 - quotient(pl.col("placed"), pl.col("work")))
    return shaped(sums.with_columns(unplaced_share=share).sort("rank"), COLUMNS)


def _compared(found: Launches, tree: HostTree) -> tuple[Bools, Bools]:
    """Which work has a launch with the external id of its operator, and which with that of another operator."""
    external = tree.frame["external_id"].fill_null(0).to_numpy()
    of_call, of_operator = external[found.call], external[found.operator]
    comparable = (found.operator >= 0) & (of_call > 0)
    agree, other = comparable & (of_call == of_operator), comparable & (of_call != of_operator)
    if other.any():
        asked = pl.DataFrame({"external_id": of_call, "rank": found.work["rank"]}).with_row_index("row")
        operators = tree.frame.select("rank", "external_id").filter(~tree.calls)
        known = asked.filter(pl.Series(other)).join(operators, on=["rank", "external_id"], how="semi")
        other[:] = False
        other[known["row"].to_numpy()] = True
    return agree, other


ANALYSIS = attribution_coverage = Analysis(compute=compute, columns=COLUMNS, scope="rank")
