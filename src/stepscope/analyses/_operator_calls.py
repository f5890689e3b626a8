"""Calls of operators: their time on the host, the device work that they and everything inside them started, FLOPs."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses._flops import operator_work
from stepscope.analyses._host import HostTree, host_tree
from stepscope.analyses._launches import launches
from stepscope.analyses._tables import RECORD_TRACE
from stepscope.core.errors import MissingData
from stepscope.core.kernels import name_test
from stepscope.core.nesting import Nesting
from stepscope.core.run import Run
from stepscope.core.tensor_cores import could_use_tensor_cores, uses_tensor_cores

__all__ = ["OperatorCalls", "levels", "operator_calls", "work_inside"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class OperatorCalls:
    """`rows` are the rows of `tree.frame` that are operators, in order, and `figures` has one row for each.

    Its columns: rank, name; host, host_self (ns); on_device, whether its rank has device work; device_self and
    tensor_self (ns), the work that it started itself; device_total and tensor_total (ns), with what operators inside
    it started; eligible; flops, with those of operators inside, null where none are known.
    """

    tree: HostTree
    rows: Ints
    figures: pl.DataFrame


def operator_calls(run: Run) -> OperatorCalls:
    """All calls of operators of a run of one rank or more. Raises MissingData without operators."""
    return run.once(_operator_calls)


def work_inside(run: Run) -> pl.DataFrame:
    """A row for each device work and each operator around its launch, by start: call (row of figures), start, end.

    Raises MissingData without device work.
    """
    return run.once(_work_inside)


def levels(nesting: Nesting) -> list[Ints]:
    """The rows of each depth, outermost first."""
    deepest = int(nesting.depth.max(initial=0))
    depth = nesting.depth.astype(np.int16 if deepest < 2**15 else np.int64, copy=False)  # numpy counts short numbers
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.cumsum(np.bincount(nesting.depth, minlength=1))[:-1])


def _operator_calls(run: Run) -> OperatorCalls:
    tree = host_tree(run)
    rows = np.nonzero(tree.operators)[0]
    if not len(rows):
        raise MissingData("operators", how=RECORD_TRACE)
    by_depth = levels(tree.nesting)
    sums = {"host_self": tree.nesting.self_time, **_device(run, tree, by_depth)}
    figures = tree.frame.select("rank", "name", host=pl.col("end") - pl.col("start"))[rows]
    figures = figures.with_columns(
        pl.col("rank").is_in(_ranks_with_work(run)).alias("on_device"),
        *(pl.Series(name, values[rows]) for name, values in sums.items()),
        flops=_flops(run, tree, rows, by_depth),
    )
    return OperatorCalls(tree, rows, figures)


def _ranks_with_work(run: Run) -> list[int]:
    try:
        return launches(run).work["rank"].unique().to_list()
    except MissingData:
        return []


def _device(run: Run, tree: HostTree, by_depth: list[Ints]) -> dict[str, Ints | Bools]:
    """Sums of device work for each row of the tree, and whether tensor cores could do it."""
    own, tensor = (np.zeros(len(tree.owner), dtype=np.int64) for _ in range(2))
    try:
        found = launches(run)
    except MissingData:
        pass
    else:
        owned = found.operator >= 0
        duration = (found.work["end"] - found.work["start"]).to_numpy()
        np.add.at(own, found.operator[owned], duration[owned])
        matrix = name_test(found.work["name"], uses_tensor_cores) & (found.work["kind"] == "kernel")
        owned &= matrix.to_numpy()
        np.add.at(tensor, found.operator[owned], duration[owned])
    matrices = tree.passing(pl.col("name").is_in([name for name in tree.names if could_use_tensor_cores(name)]))
    eligible = (matrices | (tensor > 0)).astype(np.int64)
    return {
        "device_self": own,
        "device_total": _with_inside(tree.nesting, by_depth, own),
        "tensor_self": tensor,
        "tensor_total": _with_inside(tree.nesting, by_depth, tensor),
        "eligible": _with_inside(tree.nesting, by_depth, eligible) > 0,
    }


def _flops(run: Run, tree: HostTree, asked: Ints, by_depth: list[Ints]) -> pl.Series:
    """FLOPs of some rows and all rows inside each, null where none are known."""
    known = operator_work(run).select("row", "flops").drop_nulls("flops")
    if known.is_empty():
        return pl.Series([None], dtype=pl.Float64).new_from_index(0, len(asked))
    rows = known["row"].to_numpy()
    own, count = np.zeros(len(tree.owner)), np.zeros(len(tree.owner), dtype=np.int64)
    own[rows], count[rows] = known["flops"].to_numpy(), 1
    inside = pl.Series(_with_inside(tree.nesting, by_depth, own)[asked])
    counted = pl.Series(_with_inside(tree.nesting, by_depth, count)[asked])
    return pl.select(pl.when(counted > 0).then(inside)).to_series()


def _with_inside(nesting: Nesting, by_depth: list[Ints], own: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """For each row, the sum of `own` over it and all rows inside it; `by_depth` are the `levels`."""
    total = own.copy()
    for rows in reversed(by_depth[1:]):
        adding = rows[total[rows] != 0]
        np.add.at(total, nesting.parent[adding], total[adding])
    return total


def _work_inside(run: Run) -> pl.DataFrame:
    found, calls = launches(run), operator_calls(run)
    number = np.full(len(calls.tree.owner), -1, dtype=np.int64)
    number[calls.rows] = np.arange(len(calls.rows))
    work, around = np.arange(found.work.height), found.operator
    parts = [np.empty((0, 2), dtype=np.int64)]
    while len(work):
        work, around = work[around >= 0], around[around >= 0]
        named = number[around] >= 0
        parts.append(np.stack((number[around[named]], work[named]), axis=1))
        around = calls.tree.nesting.parent[around]
    pairs = np.concatenate(parts)
    spans = found.work.select("start", "end")[pairs[:, 1]]
    return spans.select(call=pl.Series(pairs[:, 0]), start="start", end="end").sort("start", maintain_order=True)
