"""Modules by class: all instances of Conv2d together, in forward and in backward.

One row is a class in one pass. Times are ns; self times are without the modules inside, as in `modules`, and add up to
them over all rows. Totals hold the modules inside, and those of a class inside its own class (a Sequential in a
Sequential) once. Device times are sums of durations, null in a rank without device work. Rows are in order of ranks
and the pass, by device_self, then host_self, largest first.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.result_tables import RANK, quotient, shaped
from stepscope.analyses.modules.lib.module_calls import Modules, modules_of
from stepscope.analyses.modules.lib.module_sums import in_tree, module_sums, own_sums, step_counts
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("class", pl.String, None, "class of the modules"),
    Column("pass", pl.String, None, "forward, recompute or backward"),
    Column("instances", pl.Int64, "count", "instances"),
    Column("calls", pl.Int64, "count", "calls; in backward the calls that it went through"),
    Column("host_total", pl.Int64, "ns", "time on the host, with the modules inside"),
    Column("host_self", pl.Int64, "ns", "time on the host, without the modules inside"),
    Column("host_python", pl.Int64, "ns", "part of host_self outside of operators and runtime calls"),
    Column("device_total", pl.Int64, "ns", "sum of the device work that they and the modules inside started"),
    Column("device_self", pl.Int64, "ns", "sum of the device work that they started themselves"),
    Column("calls_per_step", pl.Float64, "count", "calls per step; null without step markers"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows in order of ranks, the pass and time. Raises MissingData without modules."""
    found = modules_of(run)
    rows = module_sums(own_sums(run), found.nodes.parent)
    rows = in_tree(rows.with_columns(outermost=pl.Series(_is_outermost(found)[rows["node"].to_numpy()])), found)
    outermost = pl.col("outermost")
    sums = rows.group_by("rank", "class", "pass").agg(
        pl.col("host_self", "host_python", "calls").sum(),
        instances=pl.col("instance").n_unique(),
        host_total=pl.col("host_total").filter(outermost).sum(),
        device_total=pl.col("device_total").filter(outermost).sum(),
        device_self=pl.col("device_self").sum(),
        has_device=pl.col("device_self").is_not_null().any(),
    )
    sums = sums.join(step_counts(run), on="rank", how="left").with_columns(
        pl.when("has_device").then(pl.col("device_total", "device_self")),
        calls_per_step=quotient(pl.col("calls"), pl.col("steps")),
    )
    order = {"rank": False, "pass": False, "device_self": True, "host_self": True, "class": False}
    return shaped(sums.sort(*order, descending=list(order.values()), nulls_last=True), COLUMNS)


def _is_outermost(found: Modules) -> npt.NDArray[np.bool_]:
    """Whether a node is in no other node of its class."""
    code = found.nodes.frame["class"].rank("dense").cast(pl.Int64).to_numpy()
    outermost = np.ones(len(code), dtype=np.bool_)
    rows, around = np.arange(len(code)), found.nodes.parent
    while len(rows):
        rows, around = rows[around >= 0], around[around >= 0]
        outermost[rows[code[around] == code[rows]]] = False
        around = found.nodes.parent[around]
    return outermost


LEADING = ("class", "pass", "instances", "calls", "host_total", "device_total", "device_self", "host_self")
ANALYSIS = module_classes = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
