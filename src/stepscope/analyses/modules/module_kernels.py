"""Device work inside each module instance: kernels, copies and sets by name, and the operator that launched them.

One row is a name of device work that a module instance started, not through an inner module, from one operator in one
pass. Times are ns; a sum of durations counts work in parallel twice. The sums of a module add up to its device_self in
`modules` exactly; a row without a module is what no module started. Rows are in order of ranks, the tree, the pass and
device time, longest first.
"""

import polars as pl

from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE_ON_GPU, at_rows, shaped
from stepscope.analyses.modules.lib.module_calls import modules_of
from stepscope.analyses.modules.lib.module_sums import KEY, in_tree, module_work
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("module", pl.String, None, "path of the module instance; null: started by no module"),
    Column("pass", pl.String, None, "forward, recompute or backward"),
    Column("operator", pl.String, None, "innermost operator around the launch; null: launched outside of operators"),
    Column("name", pl.String, None, "kernel, copy or set"),
    Column("kind", pl.String, None, "kernel, memcpy or memset"),
    Column("calls", pl.Int64, "count", "how often it ran"),
    Column("device_total", pl.Int64, "ns", "sum of durations"),
    Column("mean", pl.Float64, "ns", "mean duration"),
    Column("max", pl.Int64, "ns", "longest duration"),
    Column("class", pl.String, None, "class of the module"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows in order of ranks, the tree, the pass and time. Raises MissingData without modules or device work."""
    found = modules_of(run)
    work = module_work(run).with_columns(operator=_operators(run))
    duration = pl.col("end") - pl.col("start")
    rows = work.group_by("rank", *KEY, "operator", "name", "kind").agg(
        calls=pl.len().cast(pl.Int64), device_total=duration.sum(), mean=duration.mean(), max=duration.max()
    )
    order = ("device_total", "name", "kind", "operator")
    rows = rows.sort(order, descending=[True, False, False, False], nulls_last=True)
    inside = shaped(in_tree(rows.filter(pl.col("node").is_not_null()).drop("rank"), found), COLUMNS)
    shown = found.nodes.frame["rank"].unique().implode()
    outside = rows.filter(pl.col("node").is_null() & pl.col("rank").is_in(shown)).with_columns(
        pl.lit(None, dtype=pl.String).alias(name) for name in ("module", "class")
    )
    both = pl.concat([inside, shaped(outside, COLUMNS)])
    if both.is_empty():
        raise MissingData("device work in a rank with modules", how=RECORD_TRACE_ON_GPU)
    return both.sort("rank", maintain_order=True)


def _operators(run: Run) -> pl.Series:
    """Name of the innermost operator around the launch of each device work."""
    found = launches(run)
    if found.tree is None:
        return pl.Series([None] * found.work.height, dtype=pl.String)
    is_operator = (found.tree.frame["kind"] == "operator").to_numpy()
    around = found.operator.copy()
    while (outward := (around >= 0) & ~is_operator[around]).any():
        around[outward] = found.tree.nesting.parent[around[outward]]
    return at_rows(found.tree.frame["name"], around)


LEADING = ("module", "pass", "name", "calls", "device_total", "mean", "operator", "kind", "max")
ANALYSIS = module_kernels = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
