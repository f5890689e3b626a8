"""What modules took: their own host and device time, and with it that of the modules inside.

An instant of a thread belongs to the innermost module call or autograd function around it; device work belongs to the
innermost around the call that launched it. So own times of all modules and passes add up to the times of the roots,
and own device times and the work that no module started add up to all device work of the rank.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.markers import step_markers
from stepscope.analyses.modules.lib.module_calls import PASSES, Modules, modules_of
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = [
    "KEY", "in_tree", "module_sums", "module_work", "own_sums", "step_counts", "union_lengths", "with_outer_nodes"
]  # fmt: skip

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
KEY = ("node", "pass")
_PASS = pl.Enum(PASSES)
_NEVER = np.int64(-(2**62))  # before all steps: the start of a launch that was not recorded
_HOST = ("calls", "operators", "host_self", "host_python")


def own_sums(run: Run) -> pl.DataFrame:
    """Own figures by node, pass and step: calls, operators, host_self, host_python, device_self (null: no device).

    `step` is the marked step in which the range starts, null outside of all. `calls` in backward are calls of forward
    that backward went through. `operators` counts those directly in the module; `host_python` is the part of
    `host_self` outside of operators and runtime calls. Raises MissingData without modules.
    """
    return run.once(_own_sums)


def module_sums(own: pl.DataFrame, parent: Ints, *by: str) -> pl.DataFrame:
    """Own figures of nodes with host_total and device_total, summed over the node and what is below it.

    `own` is as from `own_sums`; figures are kept apart by its further columns `by`.
    """
    key = (*KEY, *by)
    own = own.group_by(key).agg(pl.col(_HOST).sum(), _sum("device_self"))
    with_outer = with_outer_nodes(own.select(*key, host_total="host_self", device_total="device_self"), parent)
    totals = with_outer.group_by(key).agg(pl.col("host_total").sum(), _sum("device_total"))
    rows = totals.join(own, on=key, how="left", nulls_equal=True)
    device_self = pl.when(pl.col("device_total").is_not_null()).then(pl.col("device_self").fill_null(0))
    rows = rows.with_columns(pl.col(_HOST).fill_null(0), device_self=device_self)
    roots = rows.filter(pl.Series(parent[rows["node"].to_numpy()] < 0))
    assert rows["host_self"].sum() == roots["host_total"].sum()
    assert rows["device_self"].sum() == roots["device_total"].sum()
    return rows


def module_work(run: Run) -> pl.DataFrame:
    """Device work by the module that started it: rank, name, kind, role, start, end, node and pass, step, item.

    `node` is null for work that no module started. `step` is the marked step of the range that started it, else of the
    launch. `item` is the place of the launch in `nesting` of `modules_of`, -1 where it is not in a module.
    Raises MissingData without device work or modules.
    """
    return run.once(_module_work)


def step_counts(run: Run) -> pl.DataFrame:
    """Marked steps of each rank: rank, steps."""
    return step_markers(run).group_by("rank").agg(steps=pl.len().cast(pl.Int64))


def with_outer_nodes(rows: pl.DataFrame, parent: Ints) -> pl.DataFrame:
    """Rows with a `node`, and each of them again for every node above its own."""
    parts = [rows]
    while parts[-1].height:
        above = parts[-1].with_columns(node=pl.Series(parent[parts[-1]["node"].to_numpy()], dtype=pl.Int64))
        parts.append(above.filter(pl.col("node") >= 0))
    return pl.concat(parts)


def union_lengths(rows: pl.DataFrame, *key: str) -> pl.DataFrame:
    """The key and `busy`, the length of the union of the spans: each adds what lies behind all earlier ends."""
    ordered = rows.select(*key, "start", "end").sort(*key, "start")
    reached = pl.col("end").cum_max().shift(1).over(key)
    fresh = (pl.col("end") - pl.max_horizontal("start", reached)).clip(lower_bound=0)
    return ordered.with_columns(fresh=fresh).group_by(key).agg(busy=pl.col("fresh").sum())


def in_tree(rows: pl.DataFrame, found: Modules) -> pl.DataFrame:
    """Rows with rank, module, instance, class, depth and parent of their node, in order of the tree and the pass."""
    nodes = found.nodes.frame.with_row_index("node").with_columns(pl.col("node").cast(pl.Int64))
    nodes = nodes.with_columns(parent=found.nodes.path_of(found.nodes.parent))
    rows = rows.with_columns(pl.col("pass").cast(_PASS)).join(nodes, on="node", how="left", maintain_order="left")
    return rows.sort("node", "pass", maintain_order=True)


def _own_sums(run: Run) -> pl.DataFrame:
    found = modules_of(run)
    count = found.ranges.height
    ranges = found.ranges.select("node", "pass", "rank", "start")
    ranges = ranges.with_columns(
        step=_steps(run, ranges),
        calls=pl.Series(_is_call(found).astype(np.int64)),
        operators=pl.Series(_operators_directly_in(found)),
        host_self=pl.Series(_without_ranges_inside(found)),
        host_python=pl.Series(found.nesting.self_time[:count]),
        device_self=_started(run, found),
    )
    columns = (*KEY, "step", *_HOST, "device_self")
    own = pl.concat([ranges.select(columns), _backward_calls(found, ranges["step"]).select(columns)])
    own = own.filter(pl.col("node") >= 0)
    return own.group_by(*KEY, "step").agg(pl.col(_HOST).sum(), _sum("device_self"))


def _is_call(found: Modules) -> Bools:
    is_call: Bools = np.arange(found.ranges.height) < len(found.calls.parent)
    return is_call


def _operators_directly_in(found: Modules) -> Ints:
    count = found.ranges.height
    around = found.nesting.parent[count:]
    is_operator = (found.tree.frame["kind"].gather(found.inner) == "operator").to_numpy()
    directly = (around >= 0) & (around < count) & is_operator
    return np.bincount(around[directly], minlength=count).astype(np.int64)


def _without_ranges_inside(found: Modules) -> Ints:
    """Time of each range outside of the ranges in it: its own, and that of the operators it owns."""
    count = found.ranges.height
    own = found.nesting.self_time[:count].copy()
    owner = found.owner[found.inner]
    np.add.at(own, owner[owner >= 0], found.nesting.self_time[count:][owner >= 0])
    return own


def _steps(run: Run, ranges: pl.DataFrame) -> pl.Series:
    """The marked step of a rank in which each `start` lies."""
    markers = step_markers(run).select("rank", "step", "start", until="end").sort("start")
    asked = ranges.select("rank", "start").with_row_index().sort("start")
    placed = asked.join_asof(markers, on="start", by="rank", strategy="backward", check_sortedness=False)
    return placed.sort("index").select(step=pl.when(pl.col("start") < pl.col("until")).then("step")).to_series()


def _started(run: Run, found: Modules) -> pl.Series:
    """Sum of the durations of the device work that each range started; null in ranks without device work."""
    try:
        launched = launches(run)
    except MissingData:
        return pl.Series([None] * found.ranges.height, dtype=pl.Int64)
    owner = _owners(found, launched.call)
    sums = np.zeros(found.ranges.height, dtype=np.int64)
    durations = (launched.work["end"] - launched.work["start"]).to_numpy()
    np.add.at(sums, owner[owner >= 0], durations[owner >= 0])
    has_device = found.ranges["rank"].is_in(launched.work["rank"].unique().implode())
    return pl.select(pl.when(has_device).then(pl.Series(sums))).to_series()


def _owners(found: Modules, call: Ints) -> Ints:
    """The range of a module that each call lies in, -1 for none; a trace may hold no calls at all."""
    owner = np.full(len(call), -1, dtype=np.int64)
    owner[call >= 0] = found.owner[call[call >= 0]]
    return owner


def _backward_calls(found: Modules, step: pl.Series) -> pl.DataFrame:
    """The calls that backward went through: those whose operators, or those inside, autograd functions undo."""
    called = found.ranges["call"].to_numpy()[~_is_call(found)]
    rows = np.unique(called[called >= 0])
    through = np.zeros(len(found.calls.parent), dtype=np.bool_)
    while len(rows):
        through[rows] = True
        rows = found.calls.parent[rows]
        rows = np.unique(rows[rows >= 0])
    chosen = np.nonzero(through)[0]
    nothing = {name: pl.lit(0, dtype=pl.Int64) for name in _HOST[1:]}
    return found.ranges.select("node")[chosen].with_columns(
        pl.lit("backward").alias("pass"),
        step=step[chosen],
        calls=pl.lit(1, dtype=pl.Int64),
        **nothing,
        device_self=pl.lit(None, dtype=pl.Int64),
    )


def _module_work(run: Run) -> pl.DataFrame:
    found, launched = modules_of(run), launches(run)
    call = launched.call
    owner = _owners(found, call)
    item = np.full(found.tree.frame.height + 1, -1, dtype=np.int64)
    item[found.inner] = found.ranges.height + np.arange(len(found.inner))
    owned = owner >= 0
    began = np.full(len(call), _NEVER)
    began[call >= 0] = found.tree.frame["start"].to_numpy()[call[call >= 0]]
    began[owned] = found.ranges["start"].to_numpy()[owner[owned]]
    work = launched.work.select("rank", "name", "kind", "role", "start", "end")
    work = work.with_columns(
        item=pl.Series(np.where(owned, item[call], -1)), step=_steps(run, work.select("rank", start=pl.Series(began)))
    )
    whose = found.ranges.select(KEY)
    in_module = pl.Series(owned & (whose["node"].to_numpy()[np.maximum(owner, 0)] >= 0))
    names = whose[np.maximum(owner, 0)]
    return work.hstack(names.select(pl.when(in_module).then(pl.col(name)).alias(name) for name in KEY))


def _sum(column: str) -> pl.Expr:
    """A sum that is null where nothing is known."""
    return pl.when(pl.col(column).count() > 0).then(pl.col(column).sum()).alias(column)
