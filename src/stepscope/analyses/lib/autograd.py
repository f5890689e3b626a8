"""Which operator of the forward pass each autograd function undoes.

The rule is that of Kineto's `fwdbwd` arrows: of the operators of a thread with one sequence number, the last to start
made the node that carries this number into backward. Backward names the thread of the forward by a number of its own,
so the thread is the one whose operators have these sequence numbers; where several have, the arrows decide.
AccumulateGrad has no sequence number: it belongs to the function that ran before it on its thread, as the engine runs
it as soon as the gradient is there.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import HostTree, host_tree
from stepscope.core.run import Run

__all__ = ["Backward", "backward_functions"]

Ints = npt.NDArray[np.int64]
_ACCUMULATE = (
    "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
    "torch::autograd::AccumulateGrad",
)
_PROCESS = ("rank", "pid")


@dataclass(frozen=True, slots=True, eq=False)
class Backward:
    """Rows of `host_tree(run).frame`: `function` are autograd functions, by thread and start, `forward` the operators.

    An autograd function is the outermost of the ranges that the engine and the function itself record. `forward` is -1
    where the recording does not tell.
    """

    function: Ints
    forward: Ints


def backward_functions(run: Run) -> Backward:
    """The autograd functions of a run, perhaps none. Raises MissingData as `host_tree` does."""
    return run.once(_backward_functions)


def _backward_functions(run: Run) -> Backward:
    tree = host_tree(run)
    operators = _operators(run, tree)
    is_function = (pl.col("forward_thread") > 0) & pl.col("sequence").is_not_null()
    marked = operators.filter(is_function | pl.col("accumulates"))
    functions = _outermost(tree, marked)
    if functions.is_empty():
        return Backward(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    plain = (pl.col("forward_thread").fill_null(0) == 0) & pl.col("sequence").is_not_null() & ~pl.col("accumulates")
    wanted = functions["sequence"].drop_nulls().unique()
    forwards = operators.filter(plain & pl.col("sequence").is_in(wanted.implode()))
    threads = _forward_tracks(run, tree, marked, forwards)
    found = _joined(functions.join(threads, on=("process", "forward_thread"), how="left"), forwards)
    return Backward(found["row"].to_numpy(), found["forward"].to_numpy())


def _operators(run: Run, tree: HostTree) -> pl.DataFrame:
    """Operators: row of the tree, process, track, start, sequence, forward_thread, accumulates."""
    accumulates = pl.col("name").is_in(_ACCUMULATE)
    rows = tree.frame.select("host_row", "track", "start", "kind", "rank", accumulates=accumulates)
    linked = run.optional("host", "sequence", "forward_thread")
    rows = rows.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64)).filter(pl.col("kind") == "operator")
    rows = rows.hstack(linked[rows["host_row"]])
    rows = tree.with_threads(rows.filter(pl.col("sequence").is_not_null() | pl.col("accumulates")), "pid")
    processes = rows.select(_PROCESS).unique().sort(_PROCESS).with_row_index("process")
    return rows.join(processes, on=_PROCESS, how="left", maintain_order="left", nulls_equal=True)


def _outermost(tree: HostTree, marked: pl.DataFrame) -> pl.DataFrame:
    """Without a function inside the range that the engine put around it: the parent, with the same number."""
    parents = marked.select("row", "sequence", "forward_thread", "accumulates")
    above = marked.select(
        "sequence", "forward_thread", "accumulates", row=pl.Series(tree.nesting.parent[marked["row"].to_numpy()])
    )
    inner = above.join(parents, on="row", how="left", maintain_order="left")
    same = (
        (inner["sequence"] == inner["sequence_right"]) & (inner["forward_thread"] == inner["forward_thread_right"])
    ) | (inner["accumulates"] & inner["accumulates_right"])
    return marked.filter(~same.fill_null(False)).sort("track", "start", "row")


def _joined(functions: pl.DataFrame, forwards: pl.DataFrame) -> pl.DataFrame:
    """`forward` for each function: the last operator with its number that started before it on the forward's thread."""
    operators = forwards.select("sequence", "start", forward_track="track", forward="row").sort("start", "forward")
    known = functions.filter(pl.col("sequence").is_not_null()).sort("start")
    known = known.join_asof(
        operators, on="start", by=("forward_track", "sequence"), strategy="backward", allow_exact_matches=False,
        check_sortedness=False,
    )  # fmt: skip
    all_rows = functions.select("row", "track", "start", "sequence").join(
        known.select("row", "forward"), on="row", how="left"
    )
    unknown = pl.when(pl.col("sequence").is_not_null()).then(pl.col("forward").fill_null(-1))
    filled = all_rows.sort("track", "start", "row").with_columns(forward=unknown)
    return filled.with_columns(pl.col("forward").forward_fill().over("track").fill_null(-1))


def _forward_tracks(run: Run, tree: HostTree, marked: pl.DataFrame, forwards: pl.DataFrame) -> pl.DataFrame:
    """The thread that each number of a forward thread means: process, forward_thread, forward_track.

    The arrows count first, then how many sequence numbers agree; of a thread that ties with another nothing is said.
    """
    asked = marked.filter(~pl.col("accumulates")).select("process", "forward_thread", "sequence").unique()
    offered = forwards.select("process", "sequence", forward_track="track").unique()
    key = ("process", "forward_thread")
    votes = asked.join(offered, on=("process", "sequence")).group_by(*key, "forward_track").len("agreeing")
    if votes.select(key).is_duplicated().any():
        votes = votes.join(_arrows(run, tree, marked), on=(*key, "forward_track"), how="left")
    else:
        votes = votes.with_columns(arrows=pl.lit(0, dtype=pl.UInt32))
    score = pl.col("arrows").fill_null(0).cast(pl.Int64) * 2**32 + pl.col("agreeing")  # arrows first
    best = votes.with_columns(score=score).filter(pl.col("score") == pl.col("score").max().over(key))
    return best.filter(pl.len().over(key) == 1).select(*key, "forward_track")


def _arrows(run: Run, tree: HostTree, marked: pl.DataFrame) -> pl.DataFrame:
    """How many `fwdbwd` arrows lead from each thread to functions with each number: forward_track, arrows."""
    flows = run.where(
        "flows", pl.col("kind").is_in(["fwdbwd", "forward_backward"]), *_PROCESS, "thread", "time", "id", "begins"
    )
    flows = flows.join(tree.threads, on=(*_PROCESS, "thread"))
    tails = flows.filter("begins").select(*_PROCESS, "id", forward_track="track")
    heads = flows.filter(~pl.col("begins")).select(*_PROCESS, "id", "track", start="time")
    ends = heads.join(tails, on=(*_PROCESS, "id")).join(
        marked.select("track", "start", "process", "forward_thread"), on=("track", "start")
    )
    return ends.group_by("process", "forward_thread", "forward_track").len("arrows")
