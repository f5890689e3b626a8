"""What operators compute and move, from the shapes of their inputs: FLOPs, bytes, precision and kind of work.

One row is an operator that does work itself: of operators inside each other that stand for the same work (linear and
addmm, a convolution and the call into its library) only the innermost has a row, so sums count nothing twice. Light
work inside of heavy work (the copy of a bias inside addmm) has a row of its own. An operator without a row does nothing
of its own, like a view, or something that no formula is known for. The formulas and their sources are in the modules
`_matrix_work`, `_convolution_work`, `_attention_work` and `_light_work`.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import HostTree, host_tree
from stepscope.analyses.lib.host_rows import host_where
from stepscope.analyses.operators.lib.attention_work import ATTENTION
from stepscope.analyses.operators.lib.convolution_work import CONVOLUTIONS, INPUTS_OF_CALLER, results_of_convolutions
from stepscope.analyses.operators.lib.elementwise_work import (
    COPIES,
    ELEMENTWISE,
    EMBEDDINGS,
    NORMALIZATIONS,
    REDUCTIONS,
    SOFTMAX,
)
from stepscope.analyses.operators.lib.matrix_work import MATRIX_PRODUCTS
from stepscope.analyses.operators.lib.recorded_calls import Call, Unknown, Work, parsed
from stepscope.core.errors import MissingData
from stepscope.core.run import Run, stack
from stepscope.core.schema import DataType

__all__ = ["HEAVY", "KINDS", "SCHEMA", "operator_flops", "operator_work"]

HEAVY = ("GEMM", "convolution", "attention")
"""Kinds that tensor or matrix cores compute, and that the FLOPs of a model are counted from."""

_FORMULAS: dict[str, Mapping[str, Callable[[Call], Work]]] = {
    "GEMM": MATRIX_PRODUCTS,
    "convolution": CONVOLUTIONS,
    "attention": ATTENTION,
    "normalization": NORMALIZATIONS,
    "softmax": SOFTMAX,
    "element-wise": ELEMENTWISE,
    "reduction": REDUCTIONS,
    "embedding": EMBEDDINGS,
    "copy": COPIES,
}
KINDS = tuple(_FORMULAS)
"""All kinds of work."""

# An operator stands for its work unless one inside it does, of a level as high or higher.
_LEVELS = dict.fromkeys(KINDS, 3) | {"element-wise": 2, "reduction": 2, "embedding": 2, "copy": 1}
_OPERATORS = {name: (kind, formula) for kind, formulas in _FORMULAS.items() for name, formula in formulas.items()}
# Their formulas need arguments that are no tensors; those of others differ from call to call, and would only hide that
# calls are alike.
_NEED_ARGUMENTS = frozenset(
    name
    for name, (kind, _) in _OPERATORS.items()
    if kind in ("convolution", "attention", "reduction", "embedding", "softmax") or name == "aten::_scaled_mm"
)
_TEXTS = ("input_dims", "input_types", "concrete_inputs")
SCHEMA: dict[str, DataType] = {
    "rank": pl.Int32,
    "pid": pl.String,
    "index": pl.Int64,
    "flops": pl.Float64,
    "bytes": pl.Float64,
    "precision": pl.String,
    "kind": pl.String,
}
"""Columns of `operator_flops`."""

_WORK_SCHEMA = {**SCHEMA, "row": pl.Int64, "name": pl.String, "input_dims": pl.String}

Ints = npt.NDArray[np.int64]


def operator_flops(run: Run) -> pl.DataFrame:
    """Work of operators: rank, pid, index (`host.index`), flops, bytes, precision, kind, sorted by the first three.

    `flops` and `bytes` (minimal traffic: each input read once, each output written once) are null where shapes or
    arguments were not recorded. `precision` is float64, float32, bfloat16, float16, float8, int8, … of the inputs, null
    if unknown. `kind` is one of KINDS. Without recorded shapes the frame is empty. An index is unique in one trace
    file; where a process wrote several, `operator_work` tells their operators apart.
    """
    return run.per_rank(_operator_flops, stack)


def operator_work(run: Run) -> pl.DataFrame:
    """As `operator_flops`, with `row`, the row in `host_tree(run).frame`, and `input_dims`, in the order of these rows.

    For analyses of ranks. Empty where shapes were not recorded.
    """
    return run.once(_operator_work)


def _operator_flops(run: Run) -> pl.DataFrame:
    return operator_work(run).select(list(SCHEMA))


def _operator_work(run: Run) -> pl.DataFrame:
    try:
        tree = host_tree(run)
    except MissingData:
        return pl.DataFrame(schema=_WORK_SCHEMA)
    calls = _calls(run, tree)
    if calls.is_empty():
        return pl.DataFrame(schema=_WORK_SCHEMA)
    calls = calls.join(_works(calls), on=("name", *_TEXTS), how="left", nulls_equal=True, maintain_order="left")
    calls = calls.filter(_innermost(tree, calls))
    return calls.sort("row").select(pl.col(name).cast(kind) for name, kind in _WORK_SCHEMA.items())


def _calls(run: Run, tree: HostTree) -> pl.DataFrame:
    """Operators with a formula whose shapes were recorded: row of the tree, rank, pid, index, name and texts."""
    has_formula = pl.col("name").is_in(list(_OPERATORS))
    texts = host_where(run, ("operator",), has_formula, *_TEXTS)
    found = tree.frame.select("rank", "track", "index", "name", "host_row", "kind").with_row_index("row")
    found = found.filter(tree.passing(has_formula)).filter(pl.col("kind") == "operator")
    found = tree.with_threads(found, "pid").drop("track", "kind")
    calls = found.sort("host_row").drop("host_row").hstack(texts)
    calls = _with_inputs_of_caller(calls, tree)
    arguments = pl.when(pl.col("name").is_in(list(_NEED_ARGUMENTS))).then("concrete_inputs")
    return calls.with_columns(concrete_inputs=arguments).filter(pl.col("input_dims").is_not_null())


def _with_inputs_of_caller(calls: pl.DataFrame, tree: HostTree) -> pl.DataFrame:
    """Parts of a convolution's backward get the inputs of the operator that calls them."""
    parts = calls.select(pl.col("name").is_in(list(INPUTS_OF_CALLER))).to_series()
    if not parts.any():
        return calls
    caller = pl.Series("caller", tree.nesting.parent[calls["row"].to_numpy()], dtype=pl.Int64)
    backward = calls.filter(pl.col("name").str.ends_with("_convolution_backward"))
    inputs = backward.select(
        pl.col("row").cast(pl.Int64), *(pl.col(text).alias(f"{text}_of_caller") for text in _TEXTS)
    )
    joined = calls.with_columns(caller, part=parts).join(
        inputs, left_on="caller", right_on="row", how="left", maintain_order="left"
    )
    chosen = (pl.when("part").then(f"{text}_of_caller").otherwise(text).alias(text) for text in _TEXTS)
    return joined.with_columns(chosen).select(calls.columns)


def _works(calls: pl.DataFrame) -> pl.DataFrame:
    """What each distinct call does: formulas are asked once for each."""
    distinct = calls.select("name", *_TEXTS).unique(maintain_order=True)
    asked = [parsed(*row) for row in distinct.iter_rows()]
    results = results_of_convolutions(asked)
    works = [_work(call, results) for call in asked]
    return distinct.with_columns(
        flops=pl.Series([work.flops for work in works], dtype=pl.Float64),
        bytes=pl.Series([work.bytes for work in works], dtype=pl.Float64),
        precision=pl.Series([work.precision for work in works], dtype=pl.String),
        kind=pl.Series([_OPERATORS[call.name][0] for call in asked], dtype=pl.String),
    )


def _work(call: Call, results: dict[tuple[object, object], tuple[int, ...]]) -> Work:
    kind, formula = _OPERATORS[call.name]
    try:
        return formula(call)
    except Unknown:
        first, second = call.optional(0), call.optional(1)
    if kind == "convolution" and first and second and (first.dims, second.dims) in results:
        known = Call(call.name, call.dims, call.types, call.arguments, results[first.dims, second.dims])
        try:
            return formula(known)
        except Unknown:
            pass
    return Work(flops=None, bytes=None, precision=first.type if first else None)


def _innermost(tree: HostTree, calls: pl.DataFrame) -> pl.Series:
    """Which calls hold no other one of the same level or a higher one.

    Where the work of the inner one is unknown and that of the outer one of its level is not, the outer one stays.
    """
    levels = np.zeros(tree.frame.height, dtype=np.int64)
    known = (calls["flops"].is_not_null() | calls["bytes"].is_not_null()).to_numpy()
    own = calls["kind"].replace_strict(_LEVELS, return_dtype=pl.Int64).to_numpy() * 2 + known
    rows = calls["row"].to_numpy().astype(np.int64)
    levels[rows] = own
    keeps = np.ones(tree.frame.height, dtype=np.bool_)
    asking, around = rows, tree.nesting.parent[rows]
    while len(around):
        asking, own, around = asking[around >= 0], own[around >= 0], around[around >= 0]
        met = levels[around]
        keeps[around[(met > 0) & (met <= own)]] = False
        keeps[asking[(met == own + 1) & (own % 2 == 0)]] = False
        further = met < own  # what holds one as high as this is that one's to judge
        asking, own, around = asking[further], own[further], tree.nesting.parent[around[further]]
    return pl.Series(keeps[rows])
