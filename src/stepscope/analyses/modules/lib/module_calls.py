"""Calls of module instances, from the Python frames `nn.Module: Class_N` that torch.profiler writes with stacks on.

A module instance is a class and a number in order of first call. The trace does not hold the attribute by which a
module hangs from its parent, so the path is made of instances: `ResNet_0.Sequential_3.BasicBlock_6.Conv2d_12`. The
same instance below two parents has two paths. Where a trace has no such frames, the annotations of Lightning's profiler
are read, `[pl][module]torch.nn.modules.conv.Conv2d: model.layer1.0.conv1`; their paths are the attributes.

A pass is `forward`; `backward`: the autograd functions that undo the operators of a module, wherever they run; or
`recompute`: a module called inside an autograd function, as activation checkpointing does. A recomputed module has the
path that it has in forward, if there is one only.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.autograd import backward_functions
from stepscope.analyses.lib.host_events import OPERATIONS, THREAD, HostTree, enumerated, host_tree
from stepscope.analyses.lib.host_rows import host_where
from stepscope.analyses.modules.lib.module_tree import Nodes, node_tree
from stepscope.core.errors import MissingData
from stepscope.core.nesting import Nesting, innermost, nest
from stepscope.core.run import Run, stack

__all__ = ["PASSES", "RECORD_MODULES", "Modules", "module_spans", "modules_of"]

PASSES = ("forward", "recompute", "backward")
RECORD_MODULES = "record a traced window with Python frames: `stepscope run --with stacks,modules -- COMMAND`"
_PREFIX = "nn.Module: "
_ANNOTATION = r"^\[pl\]\[module\](?:[^:]*\.)?([^:.]+): (.+)$"
_SPANS = {
    "rank": pl.Int32, "pid": pl.String, "thread": pl.String, "start": pl.Int64, "end": pl.Int64, "module": pl.String,
    "depth": pl.Int64, "pass": pl.String,
}  # fmt: skip
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Modules:
    """`nodes` is the tree of module instances, `ranges` the times on threads that belong to them.

    `ranges` holds rank, pid, thread, track, start, end, pass; `node`, -1 for a backward that belongs to no module; and
    `call`, the row in `ranges` of the call in forward or recompute that it is or undoes, -1 for none. The calls come
    first; `calls` nests them alone.

    `nesting` nests by time on a thread first the ranges, then the rows `inner` of `tree.frame`, which are operators
    and runtime calls. `owner` is the row of the innermost range around a row of `tree.frame`, -1 for none.
    """

    nodes: Nodes
    ranges: pl.DataFrame
    calls: Nesting
    tree: HostTree
    nesting: Nesting
    inner: Ints
    owner: Ints


def module_spans(run: Run) -> pl.DataFrame:
    """When modules ran: rank, pid, thread, start, end (ns), module (path), depth (0: no module around), pass.

    One row per call of a module in `forward` or `recompute`, and per autograd function in `backward`, where it belongs
    to the innermost module whose operator it undoes. Calls nest on their thread. In order of rank, process, thread and
    start; no rows where no modules were recorded.
    """
    return run.per_rank(_module_spans, stack)


def modules_of(run: Run) -> Modules:
    """The modules of a run. Raises MissingData if none were recorded."""
    return run.once(_modules_of)


def _module_spans(run: Run) -> pl.DataFrame:
    try:
        found = modules_of(run)
    except MissingData:
        return pl.DataFrame(schema=_SPANS)
    rows = found.ranges.filter(pl.col("node") >= 0)
    rows = rows.hstack(found.nodes.frame.select("module", "depth")[rows["node"]])
    descending = [False, False, False, False, True, False]
    return rows.sort(*THREAD, "start", "end", "depth", descending=descending).select(
        pl.col(name).cast(kind) for name, kind in _SPANS.items()
    )


def _modules_of(run: Run) -> Modules:
    calls = _calls(run)
    if calls.is_empty():
        raise MissingData("modules", how=RECORD_MODULES)
    tree = _tree(run)
    calls = _on_tracks(calls, tree)
    nested = nest(*_times(calls))
    functions = _functions(run, tree)
    ranges = pl.concat([calls.select(*THREAD, "track", "start", "end"), functions.drop("forward")])
    is_call = np.arange(ranges.height) < calls.height
    alone = nest(*_times(ranges))
    again = _inside_function(alone.parent, is_call)
    node, nodes = node_tree(calls, nested, again[is_call])
    call = _undone(tree, ranges, alone, is_call, functions["forward"].to_numpy())
    passes = np.where(is_call, np.where(again, "recompute", "forward"), "backward")
    whose = np.where(call >= 0, node[np.maximum(call, 0)], -1)
    ranges = ranges.with_columns(pl.Series("pass", passes), node=pl.Series(whose), call=pl.Series(call))
    nesting, inner = _nested_with_operators(ranges, tree)
    owner = _owner(nesting.parent, ranges.height, inner, tree.frame.height)
    return Modules(nodes, ranges, nested, tree, nesting, inner, owner)


def _calls(run: Run) -> pl.DataFrame:
    """Calls of modules: thread, start, end, class, instance."""
    frames = _frames(run)
    return frames if frames.height else _annotated(run)


def _annotated(run: Run) -> pl.DataFrame:
    """Calls that Lightning's profiler has annotated; the instance is a path of attributes."""
    named = pl.col("name").str.starts_with("[pl][module]")
    calls = host_where(run, OPERATIONS, named, *THREAD, "index", "name", "start", "end").sort("rank", "pid", "index")
    parts = {
        "class": pl.col("name").str.extract(_ANNOTATION, 1),
        "instance": pl.col("name").str.extract(_ANNOTATION, 2),
    }
    return calls.select(*THREAD, "start", "end", **parts).drop_nulls("instance")


def _frames(run: Run) -> pl.DataFrame:
    """Calls that are Python frames; the instance is `Class_N`."""
    test = pl.col("module_id").is_not_null()
    frames = run.where("host", test, *THREAD, "index", "name", "start", "end", "module_id")
    frames = frames.filter(pl.col("name").str.starts_with(_PREFIX)).sort("rank", "pid", "index")
    name, number = pl.col("name").str.strip_prefix(_PREFIX), pl.concat_str(pl.lit("_"), "module_id")
    frames = frames.with_columns(name=name, number=number)
    numbered = pl.col("name").str.ends_with(pl.col("number"))  # names of the first releases lack the number
    bare = pl.when(numbered).then(pl.col("name").str.strip_suffix(pl.col("number"))).otherwise(pl.col("name"))
    frames = frames.with_columns(bare.alias("class"))
    return frames.select(*THREAD, "start", "end", "class", instance=pl.concat_str("class", "number"))


def _tree(run: Run) -> HostTree:
    try:
        return host_tree(run)
    except MissingData:  # a recording of Python frames alone
        none = run.optional("host", *THREAD, "index", "name", "kind", "start", "end", "correlation", "external_id")
        frame = none.head(0).with_columns(host_row=pl.lit(0, dtype=pl.UInt32), track=pl.lit(0, dtype=pl.Int64))
        nothing = np.empty(0, dtype=np.int64)
        threads = frame.select(*THREAD, "track")
        names, none_nested = enumerated(frame["name"]), nest(nothing, nothing, nothing)
        return HostTree(frame, threads, none_nested, nothing, nothing.astype(np.bool_), names)


def _on_tracks(calls: pl.DataFrame, tree: HostTree) -> pl.DataFrame:
    """With the numbers that the tree gives to threads; threads without operators get further ones."""
    calls = calls.join(tree.threads, on=THREAD, how="left", maintain_order="left", nulls_equal=True)
    further = tree.threads.height + pl.struct(THREAD).rank("dense").cast(pl.Int64)
    return calls.with_columns(track=pl.col("track").fill_null(further))


def _functions(run: Run, tree: HostTree) -> pl.DataFrame:
    """Autograd functions: thread, track, start, end, and the row in the tree of the operator that each undoes."""
    if tree.frame.is_empty():
        return tree.frame.select(*THREAD, "track", "start", "end", forward="track")
    found = backward_functions(run)
    rows = tree.with_threads(tree.frame.select("rank", "track", "start", "end")[found.function], "pid", "thread")
    return rows.select(*THREAD, "track", "start", "end", forward=pl.Series(found.forward, dtype=pl.Int64))


def _times(frame: pl.DataFrame) -> tuple[Ints, Ints, Ints]:
    return frame["track"].to_numpy(), frame["start"].to_numpy(), frame["end"].to_numpy()


def _inside_function(parent: Ints, is_call: Bools) -> Bools:
    """Whether any range around a row is an autograd function."""
    inside = np.zeros(len(parent), dtype=np.bool_)
    rows, around = np.arange(len(parent)), parent
    while True:
        rows, around = rows[around >= 0], around[around >= 0]
        if not len(rows):
            return inside
        inside[rows[~is_call[around]]] = True
        around = parent[around]


def _undone(tree: HostTree, ranges: pl.DataFrame, nesting: Nesting, is_call: Bools, forward: Ints) -> Ints:
    """For each range the row of the call that it is, or that made the operator which it undoes; -1 for none.

    What undoes an operator of backward (a second derivative) belongs to the call that the latter belongs to.
    """
    rows = np.arange(len(is_call))
    known = forward >= 0
    around = innermost(nesting, *_times(ranges), *_times(tree.frame[forward[known]]))
    source = np.where(is_call, rows, -1)
    source[rows[~is_call][known]] = around
    while True:  # an operator starts before what undoes it, so no chain comes back
        open_rows = np.nonzero((source >= 0) & ~is_call[np.maximum(source, 0)])[0]
        if not len(open_rows):
            return source
        source[open_rows] = source[source[open_rows]]


def _nested_with_operators(ranges: pl.DataFrame, tree: HostTree) -> tuple[Nesting, Ints]:
    """Ranges, then operators and runtime calls of the threads that have ranges, nested together; the rows of these."""
    own = tree.frame["track"].is_in(ranges["track"].unique().implode()).to_numpy()
    inner = np.flatnonzero(own & ((tree.frame["kind"] == "operator").to_numpy() | tree.calls))
    operators = _times(tree.frame.select("track", "start", "end")[inner])
    columns = zip(_times(ranges), operators, strict=True)
    return nest(*(np.concatenate(pair) for pair in columns)), inner


def _owner(parent: Ints, ranges: int, inner: Ints, height: int) -> Ints:
    around = parent[ranges:].copy()
    while True:
        inside = around >= ranges
        if not inside.any():
            break
        around[inside] = parent[around[inside]]
    owner = np.full(height, -1, dtype=np.int64)
    owner[inner] = around
    return owner
