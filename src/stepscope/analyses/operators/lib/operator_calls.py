"""Calls of operators: their time on the host, the device work that they and everything inside them started, FLOPs."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.device_work import work_names
from stepscope.analyses.lib.host_events import HostTree, host_tree
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.result_tables import RECORD_TRACE
from stepscope.analyses.operators.lib.flops import operator_work
from stepscope.core.errors import MissingData
from stepscope.core.kernels import name_test
from stepscope.core.run import Run
from stepscope.core.tensor_cores import could_use_tensor_cores, uses_tensor_cores

__all__ = ["OperatorCalls", "operator_calls", "work_inside"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class OperatorCalls:
    """`rows` are the rows of `tree.frame` that are operators, in order, and `figures` has one row for each.

    Its columns: rank; name, an enumeration; host, host_self (ns); on_device, whether launches of its rank are known;
    device_self and tensor_self (ns), the work that it started itself; device_total and tensor_total (ns), with what
    operators inside it started; eligible; flops, with those of operators inside, null where none are known.
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


def _operator_calls(run: Run) -> OperatorCalls:
    tree = host_tree(run)
    rows = np.nonzero(tree.operators)[0]
    if not len(rows):
        raise MissingData("operators", how=RECORD_TRACE)
    figures = tree.frame.select("rank", host=pl.col("end") - pl.col("start"), name=tree.name)[rows]
    figures = figures.with_columns(
        pl.col("rank").is_in(_ranks_with_launches(run)).alias("on_device"),
        pl.Series("host_self", tree.nesting.self_time[rows]),
        *(pl.Series(name, values) for name, values in _device(run, tree, rows).items()),
        flops=_flops(run, tree.nesting.parent, rows),
    )
    return OperatorCalls(tree, rows, figures)


def _ranks_with_launches(run: Run) -> list[int]:
    """Without a known launch the device work of a rank cannot be told by operator: that is not 0."""
    try:
        found = launches(run)
    except MissingData:
        return []
    return found.work["rank"].filter(pl.Series(found.call >= 0)).unique().to_list()


def _device(run: Run, tree: HostTree, asked: Ints) -> dict[str, Ints | Bools]:
    """Sums of device work for some rows of the tree, and whether tensor cores could do it."""
    launching = with_tensor = duration = tensor = np.empty(0, dtype=np.int64)
    try:
        found = launches(run)
    except MissingData:
        pass
    else:
        owned = found.operator >= 0
        whole = (found.work["end"] - found.work["start"]).to_numpy()
        launching, duration = found.operator[owned], whole[owned]
        matrix = name_test(work_names(run), uses_tensor_cores) & (found.work["kind"] == "kernel")
        owned &= matrix.to_numpy()
        with_tensor, tensor = found.operator[owned], whole[owned]
    parent = tree.nesting.parent
    matrices = tree.passing(pl.col("name").is_in([name for name in tree.names if could_use_tensor_cores(name)]))
    matrices[with_tensor[tensor > 0]] = True
    eligible = np.flatnonzero(matrices)
    return {
        "device_self": _sums(len(parent), launching, duration)[asked],
        "device_total": _with_inside(parent, launching, duration)[asked],
        "tensor_self": _sums(len(parent), with_tensor, tensor)[asked],
        "tensor_total": _with_inside(parent, with_tensor, tensor)[asked],
        "eligible": _with_inside(parent, eligible, np.ones(len(eligible), dtype=np.int64))[asked] > 0,
    }


def _flops(run: Run, parent: Ints, asked: Ints) -> pl.Series:
    """FLOPs of some rows and all rows inside each, null where none are known."""
    known = operator_work(run).select("row", "flops").drop_nulls("flops")
    if known.is_empty():
        return pl.Series([None], dtype=pl.Float64).new_from_index(0, len(asked))
    rows = known["row"].to_numpy()
    inside = pl.Series(_with_inside(parent, rows, known["flops"].to_numpy())[asked])
    counted = pl.Series(_with_inside(parent, rows, np.ones(len(rows), dtype=np.int64))[asked])
    return pl.select(pl.when(counted > 0).then(inside)).to_series()


def _sums(count: int, rows: Ints, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """For each of `count` rows the sum of its values."""
    total = np.zeros(count, dtype=values.dtype)
    np.add.at(total, rows, values)
    return total


def _with_inside(parent: Ints, rows: Ints, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """For each row of the tree the sum of the values of it and of all rows inside it; `rows` are those of the values.

    Every value climbs to the outermost row: most rows have none, so that is less than to go through them all.
    """
    total = _sums(len(parent), rows, values)
    while len(rows):
        around = parent[rows]
        inside = around >= 0
        rows, values = around[inside], values[inside]
        np.add.at(total, rows, values)
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
    start, end = (found.work[edge].to_numpy()[pairs[:, 1]] for edge in ("start", "end"))
    by_start = np.argsort(start, kind="stable")  # of numpy: what is in order in parts, as here, takes it a fraction
    return pl.DataFrame({"call": pairs[by_start, 0], "start": start[by_start], "end": end[by_start]})
