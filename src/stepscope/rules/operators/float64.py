"""Tensors are computed in float64.

## What it finds
Work in float64 that takes more than 5 % of the step (catalogue: D19). On a GPU that is busy for 80 % of the step or
more, the names of kernels tell. Without a GPU the recorded types of operators' inputs do.

## Why it costs time
float64 has twice the bytes of float32, and half the numbers fit into a vector register. GPUs for graphics compute it
at 1/32 or 1/64 of the speed of float32.

## What to do
Convert data where it is read: NumPy makes float64 unless told otherwise. Look for `.double()` and
`torch.set_default_dtype(torch.float64)`.

## How the gain is predicted
Low end: 45 % of the time, as half the bytes are moved. High end: 90 %, where arithmetic limits.

## When it is wrong
Solvers, statistics over long sums and comparisons with a reference may need float64.
"""

import json
import re
from collections.abc import Iterator

import numpy as np
import polars as pl

from stepscope.analyses.bound.bound import bound
from stepscope.analyses.host.lib.model_places import model_places
from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.lib.device_work import work_names
from stepscope.analyses.lib.host_events import host_tree
from stepscope.analyses.lib.launch_lines import launch_lines, launch_places
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.core.finding import Advice, Evidence, Finding, Place, Rule, Title
from stepscope.core.kernels import name_test
from stepscope.core.run import Run, chain, stack
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.launchers import Bools
from stepscope.rules.operators.lib.work_or_operators import OperatorCost, costly, operator_costs

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: half of it, the low end of the gain, is above the noise between two runs
SAVED = (0.43, 0.86)  # of the time: half the bytes at least, and most of it where arithmetic limits
_SETTING = r"float64|\.double\("
_KERNEL = re.compile(r"dgemm|d884|f64f64|<double|lambda\(double|^Cijk_\w*_DB_")


def check(run: Run) -> Iterator[Finding]:
    slow = costly(run.per_rank(_costs, chain), MIN_SHARE)
    if not slow:
        return
    worst = slow[0]
    yield Finding(
        title=Title("Computing in float64 takes {} per step ({})", worst.takes),
        cause="operator",
        evidence=(
            worst.evidence("float64 time per step"),
            *(
                (Evidence(label="kernels or operators", value=worst.count, unit="count", source=worst.source),)
                if worst.count
                else ()
            ),
        ),
        gain=worst.gain(SAVED, "half the bytes, and more where arithmetic limits", "table"),
        advice=(
            Advice(text="Convert the data where they are read", code="x = torch.as_tensor(array, dtype=torch.float32)"),
            Advice(text="Keep the model in float32", code="model = model.float()"),
        ),
        ranks=tuple(sorted(one.rank for one in slow)),
        where=_places(run, worst),
    )


def _costs(run: Run) -> tuple[OperatorCost, ...]:
    if has_gpu(run):
        return operator_costs(run, np.empty(0, dtype=np.bool_), _chosen(run))
    marked = _operators(run)
    return operator_costs(run, marked) if marked.any() else _of_parameters(run)


def _of_parameters(run: Run) -> tuple[OperatorCost, ...]:
    """All of what a CPU computes, where shapes and types were not recorded but the parameters are in float64."""
    double = run.optional("optimizers").filter(pl.col("dtype") == "float64")["rank"].unique()
    rows = bound(run).filter(pl.col("rank").is_in(double.implode())).drop_nulls("device")
    return tuple(
        OperatorCost(rank=rank, time=share * step, step=step, count=0, source="optimizers")
        for rank, share, step in rows.select("rank", "device", "step").iter_rows()
    )


def _places(run: Run, worst: OperatorCost) -> tuple[Place, ...]:
    if not has_gpu(run):
        return setting_places(run, _SETTING, worst.rank) or model_places(run, worst.rank)
    return launch_places(run.per_rank(_lines, stack, only=worst.rank), worst.rank, worst.share)


def _chosen(run: Run) -> pl.Series:
    return name_test(work_names(run), lambda name: _KERNEL.search(name) is not None)


def _lines(run: Run) -> pl.DataFrame:
    return launch_lines(run, _chosen(run))


def _operators(run: Run) -> Bools:
    """The rows of the tree that are operators with a tensor of float64 among their inputs."""
    tree = host_tree(run)
    inputs = run.optional("host", "input_dims", "input_types")[tree.frame["host_row"]]
    kinds = inputs.unique().drop_nulls()
    kinds = kinds.filter(pl.Series([_has_double(*row) for row in kinds.iter_rows()], dtype=pl.Boolean))
    found = inputs.with_columns(pl.struct("input_dims", "input_types").is_in(kinds.to_struct("kind").implode()))
    marked: Bools = found["input_dims"].fill_null(False).to_numpy() & tree.operators
    return marked


def _has_double(dims: str, types: str) -> bool:
    try:
        return any(shape and kind == "double" for shape, kind in zip(json.loads(dims), json.loads(types), strict=False))
    except (ValueError, TypeError):
        return False  # shapes in another form tell nothing


def example(synth: Synth, fixed: bool) -> None:
    product = 20 if fixed else 50
    length = 50 + product
    kind = "float" if fixed else "double"
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        shapes = {"input_dims": "[[512, 512], [512, 512]]", "input_types": f'["{kind}", "{kind}"]'}
        synth.host("aten::mm", "operator", start, start + product, **shapes)
        synth.host("aten::batch_norm", "operator", start + product, start + length)


RULE = Rule(check=check, example=example)
