"""Operators by name: how often they ran, and their time on the host and on the device.

One row is an operator name of a rank. Times are ns. Host totals are durations of the outermost calls of a name, so an
operator inside one of its own name counts once; host_self is without the operators, annotations and runtime calls
inside. device_self is the sum of the durations of the work that the operator itself started, device_total also of what
the operators inside it started; device_busy is the length of their union. Device times are null in a rank without
device work. Definition: the operator view of the TensorBoard plugin, without its merging of nested calls of one name.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses._host import HostTree, host_tree, is_operator
from stepscope.analyses._launches import Launches, launches
from stepscope.analyses._markers import step_markers
from stepscope.analyses._tables import RANK, RECORD_TRACE, shaped
from stepscope.core.errors import MissingData
from stepscope.core.kernels import name_test, uses_tensor_cores
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("name", pl.String, None, "operator"),
    Column("calls", pl.Int64, "count", "how often it ran"),
    Column("host_total", pl.Int64, "ns", "time on the host, with everything inside"),
    Column("host_self", pl.Int64, "ns", "time on the host, without operators, annotations and calls inside"),
    Column("device_total", pl.Int64, "ns", "sum of the device work it and the operators inside it started"),
    Column("device_self", pl.Int64, "ns", "sum of the device work it started itself"),
    Column("device_busy", pl.Int64, "ns", "time with any of the work in device_total"),
    Column("tensor_core_share", pl.Float64, "ratio", "share of device_total in tensor or matrix core kernels"),
    Column("per_step", pl.Float64, "count", "calls per step; null without step markers"),
)
Ints = npt.NDArray[np.int64]


def compute(run: Run) -> pl.DataFrame:
    """Rows by device_self, then host_self, largest first. Raises MissingData without operators."""
    tree = host_tree(run)
    chosen = tree.frame.select(is_operator()).to_series()
    if not chosen.any():
        raise MissingData("operators", how=RECORD_TRACE)
    keys = tree.frame.select(key=pl.struct("rank", "name").rank("dense").cast(pl.Int64)).to_series().to_numpy()
    calls = tree.frame.select("rank", "name", host=pl.col("end") - pl.col("start")).with_columns(
        host_self=pl.Series(tree.nesting.self_time), outermost=pl.Series(_outermost(tree, keys))
    )
    rows = (
        calls.filter(chosen)
        .group_by("rank", "name")
        .agg(calls=pl.len(), host_total=pl.col("host").filter("outermost").sum(), host_self=pl.col("host_self").sum())
    )
    rows = _with_device(run, rows, keys, chosen)
    steps = step_markers(run).group_by("rank").agg(steps=pl.len())
    rows = rows.join(steps, on="rank", how="left").with_columns(per_step=pl.col("calls") / pl.col("steps"))
    order = {"rank": False, "device_self": True, "host_self": True, "name": False}
    return shaped(rows.sort(*order, descending=list(order.values()), nulls_last=True), COLUMNS)


def _outermost(tree: HostTree, keys: Ints) -> npt.NDArray[np.bool_]:
    """Whether no range around a row has its key."""
    outermost = np.ones(len(keys), dtype=np.bool_)
    rows, around = np.arange(len(keys)), tree.nesting.parent
    while True:
        rows, around = rows[around >= 0], around[around >= 0]
        if not len(rows):
            return outermost
        outermost[rows[keys[around] == keys[rows]]] = False
        around = tree.nesting.parent[around]


def _with_device(run: Run, rows: pl.DataFrame, keys: Ints, chosen: pl.Series) -> pl.DataFrame:
    try:
        found = launches(run)
    except MissingData:
        nothing = dict.fromkeys(("device_total", "device_self", "device_busy"), pl.lit(None, dtype=pl.Int64))
        return rows.with_columns(**nothing, tensor_core_share=pl.lit(None, dtype=pl.Float64))
    pairs = _started(found, keys, chosen.to_numpy())
    sums = _sums(pairs).join(_busy(pairs), on=("rank", "name"), how="left")
    rows = rows.join(sums, on=("rank", "name"), how="left")
    has_device = pl.col("rank").is_in(found.work["rank"].unique().implode())
    device = ("device_total", "device_self", "device_busy")
    share = pl.when(pl.col("device_total") > 0).then(pl.col("tensor") / pl.col("device_total"))
    return rows.with_columns(pl.when(has_device).then(pl.col(*device).fill_null(0))).with_columns(
        tensor_core_share=share
    )


def _started(found: Launches, keys: Ints, chosen: npt.NDArray[np.bool_]) -> pl.DataFrame:
    """One row per device work and name of an operator around its launch: rank, name, start, end, own, tensor_cores."""
    assert found.tree is not None
    frame, parent = found.tree.frame, found.tree.nesting.parent
    work, around = np.arange(found.work.height), found.operator
    parts = []
    while len(work):
        work, around = work[around >= 0], around[around >= 0]
        named = chosen[around]
        parts.append(np.stack((work[named], around[named]), axis=1))
        around = parent[around]
    pairs = np.concatenate(parts)
    own = pairs[:, 1] == found.operator[pairs[:, 0]]
    tensor_cores = name_test(found.work["name"], uses_tensor_cores) & (found.work["kind"] == "kernel")
    started = found.work.select("start", "end").with_columns(tensor_cores=tensor_cores)[pairs[:, 0]]
    started = started.with_columns(frame.select("rank", "name")[pairs[:, 1]])
    started = started.with_columns(work=pl.Series(pairs[:, 0]), own=pl.Series(own), key=pl.Series(keys[pairs[:, 1]]))
    # An operator inside one of its own name counts its work once; the innermost comes first and keeps `own`.
    return started.unique(("work", "key"), keep="first", maintain_order=True)


def _sums(pairs: pl.DataFrame) -> pl.DataFrame:
    duration = pl.col("end") - pl.col("start")
    return pairs.group_by("rank", "name").agg(
        device_total=duration.sum(),
        device_self=duration.filter("own").sum(),
        tensor=duration.filter("tensor_cores").sum(),
    )


def _busy(pairs: pl.DataFrame) -> pl.DataFrame:
    """Length of the union of the spans of each name: each span adds what lies behind all earlier ends."""
    ordered = pairs.sort("rank", "name", "start")
    reached = pl.col("end").cum_max().shift(1).over("rank", "name")
    fresh = (pl.col("end") - pl.max_horizontal("start", reached)).clip(lower_bound=0)
    return ordered.with_columns(fresh=fresh).group_by("rank", "name").agg(device_busy=pl.col("fresh").sum())


ANALYSIS = operators = Analysis(compute=compute, columns=COLUMNS)
