"""Operators inside each module instance: the level below `modules`.

One row is the name of an operator directly in a module instance in one pass, not in a module further in. Runtime calls
outside of operators are rows too, as compiled Triton kernels are launched so. Times are ns. Host totals are durations
of the outermost calls of a name. host_self is without the operators, runtime calls and modules inside. device_self is
the time of the work that the operator itself started; device_total includes that of the operators inside it. So
device_self of the rows of a module adds up to device_self of the module exactly. Device times are null in a rank
without device work. In backward the operators are the autograd functions that undo operators of the module, and what
runs inside them. Rows are in order of ranks, the tree, the pass, device_self and host_self, largest first.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.result_tables import RANK, quotient, shaped
from stepscope.analyses.modules.lib.module_calls import Modules, modules_of
from stepscope.analyses.modules.lib.module_sums import KEY, in_tree, module_work, step_counts
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("module", pl.String, None, "path of the module instance"),
    Column("pass", pl.String, None, "forward, recompute or backward"),
    Column("name", pl.String, None, "operator, or runtime call outside of operators"),
    Column("calls", pl.Int64, "count", "how often it ran"),
    Column("host_total", pl.Int64, "ns", "time on the host, with everything inside"),
    Column("host_self", pl.Int64, "ns", "time on the host, without operators, calls and modules inside"),
    Column("device_total", pl.Int64, "ns", "sum of the device work it and the operators inside it started"),
    Column("device_self", pl.Int64, "ns", "sum of the device work it started itself"),
    Column("launched", pl.Int64, "count", "pieces of device work that it started itself"),
    Column("per_step", pl.Float64, "count", "calls per step; null without step markers"),
    Column("class", pl.String, None, "class of the module"),
)
Ints = npt.NDArray[np.int64]


def compute(run: Run) -> pl.DataFrame:
    """Rows in order of ranks, the tree, the pass and time. Raises MissingData without modules."""
    found = modules_of(run)
    items = _items(found)
    rows = items.group_by(*KEY, "name").agg(
        calls=pl.len().cast(pl.Int64),
        host_total=pl.col("host").filter("outermost").sum(),
        host_self=pl.col("host_self").sum(),
    )
    rows = _with_device(run, found, items, rows).with_columns(rank=found.nodes.frame["rank"].gather(rows["node"]))
    rows = rows.join(step_counts(run), on="rank", how="left").drop("rank")
    rows = rows.with_columns(per_step=quotient(pl.col("calls"), pl.col("steps")))
    rows = rows.sort("device_self", "host_self", "name", descending=[True, True, False], nulls_last=True)
    return shaped(in_tree(rows, found), COLUMNS)


def _items(found: Modules) -> pl.DataFrame:
    """Operators, and calls outside of them, in modules: item (place in the nesting), node, pass, name, host times."""
    count = found.ranges.height
    frame = found.tree.frame.select("name", "kind", host=pl.col("end") - pl.col("start"))[found.inner]
    owner = found.owner[found.inner]
    around = found.nesting.parent[count:]
    whose = found.ranges.select(KEY)[np.maximum(owner, 0)]
    items = frame.hstack(whose).with_columns(
        item=pl.Series(count + np.arange(len(owner))),
        host_self=pl.Series(found.nesting.self_time[count:]),
        outermost=pl.Series(_outermost(found, frame["name"])),
        directly=pl.Series(around < count),
    )
    is_row = pl.Series(owner >= 0) & (pl.col("node") >= 0) & ((pl.col("kind") == "operator") | pl.col("directly"))
    return items.filter(is_row)


def _outermost(found: Modules, name: pl.Series) -> npt.NDArray[np.bool_]:
    """Whether no operator of the same module around a row has its name."""
    count = found.ranges.height
    code = name.rank("dense").cast(pl.Int64).to_numpy()
    outermost = np.ones(len(code), dtype=np.bool_)
    rows, around = np.arange(len(code)), found.nesting.parent[count:]
    while True:
        rows, around = rows[around >= count], around[around >= count]
        if not len(rows):
            return outermost
        outermost[rows[code[around - count] == code[rows]]] = False
        around = found.nesting.parent[around]


def _with_device(run: Run, found: Modules, items: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    figures = ("device_total", "device_self", "launched")
    try:
        work = module_work(run)
    except MissingData:
        return rows.with_columns(pl.lit(None, dtype=pl.Int64).alias(name) for name in figures)
    pairs = _started(found, work, items)
    duration = pl.col("end") - pl.col("start")
    sums = pairs.group_by(*KEY, "name").agg(
        device_total=duration.sum(),
        device_self=duration.filter("own").sum(),
        launched=pl.col("own").sum().cast(pl.Int64),
    )
    started = work.filter(pl.col("node").is_not_null())
    assert sums["device_self"].sum() == (started["end"] - started["start"]).sum()
    has_device = found.nodes.frame["rank"].gather(rows["node"]).is_in(work["rank"].unique().implode())
    rows = rows.join(sums, on=(*KEY, "name"), how="left", maintain_order="left")
    return rows.with_columns(pl.when(has_device).then(pl.col(name).fill_null(0)).alias(name) for name in figures)


def _started(found: Modules, work: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    """One row per device work and name of a row around its launch in the module: node, pass, name, start, end, own."""
    count = found.ranges.height
    work = work.filter(pl.col("node").is_not_null()).with_row_index("work")
    is_row = np.zeros(len(found.nesting.parent), dtype=np.bool_)
    is_row[items["item"].to_numpy()] = True
    place, around = np.arange(work.height), work["item"].to_numpy()
    seen = np.zeros(work.height, dtype=np.bool_)
    parts = [np.empty((0, 3), dtype=np.int64)]
    while len(place):
        named = is_row[around]
        parts.append(np.stack((place[named], around[named], ~seen[place[named]]), axis=1))
        seen[place[named]] = True
        around = found.nesting.parent[around]
        inside = around >= count
        place, around = place[inside], around[inside]
    pairs = pl.DataFrame(np.concatenate(parts), schema=["place", "item", "own"], orient="row")
    pairs = pairs.with_columns(pl.col("own") == 1).hstack(work.select("work", *KEY, "start", "end")[pairs["place"]])
    pairs = pairs.join(items.select("item", "name"), on="item", how="left", maintain_order="left")
    # An operator inside one of its own name counts its work once; the innermost comes first and keeps `own`.
    return pairs.unique(("work", "name"), keep="first", maintain_order=True)


LEADING = ("module", "pass", "name", "calls", "host_total", "device_total", "device_self", "host_self", "per_step")
ANALYSIS = module_operators = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
