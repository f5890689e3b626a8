"""The Python call stack of each call of an operator, without a loop over calls: equal stacks get one number."""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.autograd import backward_functions
from stepscope.analyses.lib.call_sites import user_site
from stepscope.analyses.lib.host_events import THREAD
from stepscope.analyses.operators.lib.operator_calls import OperatorCalls, operator_calls
from stepscope.analyses.operators.lib.operator_groups import numbered
from stepscope.core.nesting import Nesting, innermost, nest
from stepscope.core.run import Run
from stepscope.core.schema import DataType

__all__ = ["OperatorStacks", "operator_stacks"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_CODE = re.compile(r".+\(\d+\): ", re.DOTALL)  # other frames are modules and built-in functions
_SCHEMA: dict[str, DataType] = {
    "number": pl.Int64, "stack": pl.String, "file": pl.String, "line": pl.Int64, "function": pl.String
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class OperatorStacks:
    """For each row of `operator_calls(run).figures`, the number of its stack, -1 without one.

    `backward` tells stacks that are those of the forward operator. `table` has a row for each number: stack (frames,
    innermost first, separated by ;), and file, line and function of the nearest frame of the user's code.
    """

    number: Ints
    backward: Bools
    table: pl.DataFrame


def operator_stacks(run: Run) -> OperatorStacks:
    """Stacks from Python frames, else as written with the call; in backward those of the forward operator.

    Raises MissingData without operators.
    """
    return run.once(_operator_stacks)


def _operator_stacks(run: Run) -> OperatorStacks:
    calls = operator_calls(run)
    node, stacks = _of_frames(run, calls)
    written = run.optional("host", "call_stack")["call_stack"]
    if written.null_count() < len(written):
        written = written.gather(calls.tree.frame["host_row"].gather(calls.rows))
    else:
        written = written.clear(len(calls.rows))
    if not stacks and written.null_count() == len(written):
        return OperatorStacks(node, node >= 0, pl.DataFrame(schema=_SCHEMA))
    text = pl.select(
        pl.coalesce(pl.Series(node).replace_strict(stacks, default=None, return_dtype=pl.String), written)
    ).to_series()
    number, groups = numbered(pl.DataFrame({"stack": text}))
    number = np.where(text.is_null().to_numpy(), -1, number)
    of_forward = _of_forward(run, calls, number)
    return OperatorStacks(np.where(of_forward >= 0, of_forward, number), of_forward >= 0, _table(groups))


def _table(groups: pl.DataFrame) -> pl.DataFrame:
    rows = []
    for stack, number in groups.filter(pl.col("stack").is_not_null()).iter_rows():
        site = user_site(frame.strip() for frame in stack.split(";"))
        rows.append((number, stack, site.file, site.line, site.function))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _of_frames(run: Run, calls: OperatorCalls) -> tuple[Ints, dict[int, str]]:
    """For each call the node of its stack, -1 without one, and the stacks by node."""
    tree = calls.tree
    frames = run.where("host", pl.col("kind") == "python", *THREAD, "name", "start", "end")
    tracks = np.unique(tree.frame["track"].to_numpy()[calls.rows])
    frames = frames.join(tree.threads[tracks], on=THREAD, how="inner", maintain_order="left", nulls_equal=True)
    if frames.is_empty():
        return np.full(len(calls.rows), -1, dtype=np.int64), {}
    at = tree.frame.select("track", "start", "end")[calls.rows]
    table = tuple(frames[name].to_numpy() for name in ("track", "start", "end"))
    nesting = nest(*table)
    found = innermost(nesting, *table, *(at[name].to_numpy() for name in ("track", "start", "end")))
    name, names = numbered(frames.select("name"))
    node, outer, said = _nodes(nesting, found, name, _is_code(names["name"]))
    at_call = np.where(found >= 0, node[found], -1)
    return at_call, _texts(at_call, outer, said, names["name"].to_list())


def _is_code(names: pl.Series) -> Bools:
    return np.array([_CODE.match(name) is not None for name in names.to_list()], dtype=np.bool_)


def _nodes(nesting: Nesting, found: Ints, name: Ints, is_code: Bools) -> tuple[Ints, list[int], list[int]]:
    """The tree of stacks: for each frame its node (-1: none), for each node the one outside it and its name.

    Only frames around the calls that were found are looked at. What is no code has the node of the frame around it.
    """
    by_depth = _levels(nesting)
    needed = np.zeros(len(name), dtype=np.bool_)
    needed[found[found >= 0]] = True
    for rows in reversed(by_depth[1:]):
        needed[nesting.parent[rows[needed[rows]]]] = True
    node = np.full(len(name), -1, dtype=np.int64)
    outer: list[int] = []
    said: list[int] = []
    for rows in by_depth:
        inside = rows[needed[rows]]
        above = np.where(nesting.parent[inside] >= 0, node[nesting.parent[inside]], -1)
        code = is_code[name[inside]]
        node[inside[~code]] = above[~code]
        distinct, inverse = np.unique((above[code] + 1) * len(is_code) + name[inside[code]], return_inverse=True)
        node[inside[code]] = inverse + len(outer)
        outer += (distinct // len(is_code) - 1).tolist()
        said += (distinct % len(is_code)).tolist()
    return node, outer, said


def _levels(nesting: Nesting) -> list[Ints]:
    """The rows of each depth, outermost first."""
    deepest = int(nesting.depth.max(initial=0))
    depth = nesting.depth.astype(np.int16 if deepest < 2**15 else np.int64, copy=False)  # numpy counts short numbers
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.cumsum(np.bincount(nesting.depth, minlength=1))[:-1])


def _texts(used: Ints, outer: list[int], said: list[int], names: list[str]) -> dict[int, str]:
    texts = {}
    for node in np.unique(used[used >= 0]).tolist():
        frames, at = [], node
        while at >= 0:
            frames.append(names[said[at]])
            at = outer[at]
        texts[node] = ";".join(frames)
    return texts


def _of_forward(run: Run, calls: OperatorCalls, number: Ints) -> Ints:
    """For each call inside an autograd function, the stack of the operator that the function undoes, else -1.

    A call with other Python frames around it than the function has keeps its own stack: it computes forward again.
    """
    found = backward_functions(run)
    of_row = np.full(len(calls.tree.owner), -1, dtype=np.int64)
    of_row[calls.rows] = number
    undone = np.full(len(of_row), -1, dtype=np.int64)
    known = found.forward >= 0
    undone[found.function[known]] = of_row[found.forward[known]]
    result, around, waiting = np.full(len(number), -1, dtype=np.int64), calls.rows, np.arange(len(number))
    while len(waiting):
        same = of_row[around] == number[waiting]
        result[waiting[same]] = undone[around[same]]
        waiting, around = waiting[undone[around] < 0], calls.tree.nesting.parent[around[undone[around] < 0]]
        waiting, around = waiting[around >= 0], around[around >= 0]
    return result
