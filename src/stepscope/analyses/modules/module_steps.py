"""Module instances step by step: the level between a step and `modules`.

One row is a module instance in one pass of one marked step, if it ran in it. Times are ns; columns are as in `modules`.
A call belongs to the step in which it starts, and with it the device work that it launched. Rows are in order of ranks,
steps, the tree and the pass.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE, shaped
from stepscope.analyses.modules.lib.module_calls import modules_of
from stepscope.analyses.modules.lib.module_sums import in_tree, module_sums, own_sums
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("step", pl.Int64, None, "number in the step marker"),
    Column("module", pl.String, None, "path of the module instance"),
    Column("pass", pl.String, None, "forward, recompute or backward"),
    Column("calls", pl.Int64, "count", "calls; in backward the calls that it went through"),
    Column("host_total", pl.Int64, "ns", "time on the host, with the modules inside"),
    Column("host_self", pl.Int64, "ns", "time on the host, without the modules inside"),
    Column("device_total", pl.Int64, "ns", "sum of the device work that it and the modules inside started"),
    Column("device_self", pl.Int64, "ns", "sum of the device work that it started itself"),
    Column("depth", pl.Int64, None, "modules around it: 0 for those that no module called"),
    Column("class", pl.String, None, "class of the module"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows in order of ranks, steps, the tree and the pass. Raises MissingData without modules in marked steps."""
    found = modules_of(run)
    own = own_sums(run).filter(pl.col("step").is_not_null())
    if own.is_empty():
        raise MissingData("modules in marked steps", how=f"call profiler.step() after each step, or {RECORD_TRACE}")
    rows = in_tree(module_sums(own, found.nodes.parent, "step"), found)
    return shaped(rows.sort("rank", "step", maintain_order=True), COLUMNS)


LEADING = ("step", "module", "pass", "calls", "host_total", "device_total", "device_self", "host_self", "depth")
ANALYSIS = module_steps = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
