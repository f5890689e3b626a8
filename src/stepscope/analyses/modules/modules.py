"""Module instances by where they are called: a tree, with host and device time in forward and in backward.

One row is a module instance below one parent, in one pass, summed over its calls. A module is named by its path of
instances, such as `ResNet_0.Sequential_3.BasicBlock_6`: class and number in order of first call. Traces do not hold
attribute names. The passes are `forward`, `backward` and `recompute`. Backward is the autograd functions of the
module's operators, found by autograd's sequence numbers, and the accumulation of their gradients. Recompute is what
activation checkpointing calls again during backward. Rows are in order of ranks, the tree and the pass, siblings by
their first call.

Times are ns. An instant of a thread belongs to the innermost module or autograd function around it. Device work belongs
to the innermost around the call that launched it. So `self` is without modules inside. The self times of all rows add
up to the totals of the rows of depth 0 exactly. Totals are self times of the module and of all below it. Device times
are sums of durations, in which parallel work counts twice; device_busy is the length of their union. The collective of
a bucket of gradients counts for the module whose backward runs at its launch; `communication` tells how much that is.
They are null in a rank without device work. A row without a module is the device work that no module started
(optimizer, loss functions, copies of inputs). Backward rows hold null where the trace has no sequence numbers. Where
autograd runs inside a module's own forward, this time is `backward`, not `forward`.

Definition: the module view of the TensorBoard plugin, extended by backward, paths and unions; its self time on the
host, without operators, is host_python.
"""

import polars as pl

from stepscope.analyses.lib.markers import is_backward
from stepscope.analyses.lib.result_tables import RANK, quotient, shaped, table
from stepscope.analyses.modules.lib.module_calls import Modules, modules_of
from stepscope.analyses.modules.lib.module_sums import (
    KEY,
    in_tree,
    module_sums,
    module_work,
    own_sums,
    step_counts,
    union_lengths,
    with_outer_nodes,
)
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("module", pl.String, None, "path of the instance; null: device work that no module started"),
    Column("pass", pl.String, None, "forward, recompute or backward"),
    Column("calls", pl.Int64, "count", "calls; in backward the calls that it went through"),
    Column("host_total", pl.Int64, "ns", "time on the host, with the modules inside"),
    Column("host_self", pl.Int64, "ns", "time on the host, without the modules inside"),
    Column("host_python", pl.Int64, "ns", "part of host_self outside of operators and runtime calls"),
    Column("device_total", pl.Int64, "ns", "sum of the device work that it and the modules inside started"),
    Column("device_self", pl.Int64, "ns", "sum of the device work that it started itself"),
    Column("device_busy", pl.Int64, "ns", "time with any of the work in device_total"),
    Column("communication", pl.Int64, "ns", "part of device_total that communicates"),
    Column("operators", pl.Int64, "count", "operators directly in it, not inside other operators or modules"),
    Column("host_per_step", pl.Float64, "ns", "host_total per step, in the marked steps; null without markers"),
    Column("device_per_step", pl.Float64, "ns", "device_total per step, in the marked steps; null without markers"),
    Column("depth", pl.Int64, None, "modules around it: 0 for those that no module called"),
    Column("class", pl.String, None, "class of the module"),
    Column("parent", pl.String, None, "path of the module that called it; null at depth 0"),
)


_KEY_TYPES = {"node": pl.Int64, "pass": pl.String}
_DURATION = pl.col("end") - pl.col("start")
_COMMUNICATING = _DURATION.filter(pl.col("role") == "communication").sum()


def compute(run: Run) -> pl.DataFrame:
    """Rows in order of ranks, the tree and the pass. Raises MissingData without modules."""
    found = modules_of(run)
    rows = _with_steps(run, found, module_sums(own_sums(run), found.nodes.parent))
    rows = rows.join(_on_device(run, found), on=KEY, how="left")
    has_device = pl.col("device_total").is_not_null()
    rows = rows.with_columns(pl.when(has_device).then(pl.col("device_busy", "communication").fill_null(0)))
    rows = pl.concat([rows, _unknown(found, rows)], how="diagonal_relaxed")
    parts = [shaped(in_tree(rows, found), COLUMNS), _outside(run, found)]
    return pl.concat(parts).sort("rank", maintain_order=True)


def _with_steps(run: Run, found: Modules, rows: pl.DataFrame) -> pl.DataFrame:
    inside = module_sums(own_sums(run).filter(pl.col("step").is_not_null()), found.nodes.parent)
    inside = inside.select(*KEY, in_host="host_total", in_device="device_total")
    rows = rows.with_columns(rank=found.nodes.frame["rank"].gather(rows["node"]))
    rows = rows.join(step_counts(run), on="rank", how="left").join(inside, on=KEY, how="left").drop("rank")
    has_device = pl.col("device_total").is_not_null()
    return rows.with_columns(
        host_per_step=quotient(pl.col("in_host").fill_null(0), pl.col("steps")),
        device_per_step=pl.when(has_device).then(quotient(pl.col("in_device").fill_null(0), pl.col("steps"))),
    )


def _on_device(run: Run, found: Modules) -> pl.DataFrame:
    """Of the work of each node and what is below it: node, pass, device_busy (length of the union), communication."""
    try:
        work = module_work(run).filter(pl.col("node").is_not_null()).select(*KEY, "start", "end", "role")
    except MissingData:
        return pl.DataFrame(schema={**_KEY_TYPES, "device_busy": pl.Int64, "communication": pl.Int64})
    work = with_outer_nodes(work, found.nodes.parent)
    busy = union_lengths(work, *KEY).rename({"busy": "device_busy"})
    return busy.join(work.group_by(KEY).agg(communication=_COMMUNICATING), on=KEY)


def _unknown(found: Modules, rows: pl.DataFrame) -> pl.DataFrame:
    """Backward of all nodes of the ranks in which autograd ran, but nothing tells which operators it undid."""
    nodes = found.nodes.frame.select("rank").with_row_index("node").with_columns(pl.col("node").cast(pl.Int64))
    told = nodes.join(rows.filter(pl.col("pass") == "backward").select("node"), on="node", how="semi")
    ran = found.tree.frame.join(told.select("rank"), on="rank", how="anti").filter(is_backward()).select("rank")
    return nodes.join(ran.unique(), on="rank", how="semi").select("node", pl.lit("backward").alias("pass"))


def _outside(run: Run, found: Modules) -> pl.DataFrame:
    """One row for each rank with modules and device work: the work that no module started."""
    try:
        work = module_work(run)
    except MissingData:
        return table((), COLUMNS)
    ranks = work.select("rank").unique().join(found.nodes.frame.select("rank"), on="rank", how="semi")
    outside = work.filter(pl.col("node").is_null())
    sums = outside.group_by("rank").agg(
        device_total=_DURATION.sum(),
        communication=_COMMUNICATING,
        in_steps=_DURATION.filter(pl.col("step").is_not_null()).sum(),
    )
    rows = ranks.join(sums, on="rank", how="left").join(union_lengths(outside, "rank"), on="rank", how="left")
    rows = rows.join(step_counts(run), on="rank", how="left").with_columns(
        pl.col("device_total", "busy", "communication").fill_null(0)
    )
    rows = rows.with_columns(
        device_self="device_total",
        device_busy="busy",
        device_per_step=quotient(pl.col("in_steps").fill_null(0), pl.col("steps")),
    )
    return shaped(pl.concat([table((), COLUMNS), rows.sort("rank")], how="diagonal_relaxed"), COLUMNS)


LEADING = (
    "module",
    "pass",
    "calls",
    "host_total",
    "device_total",
    "device_self",
    "host_self",
    "host_per_step",
    "device_per_step",
    "device_busy",
)
ANALYSIS = modules = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
