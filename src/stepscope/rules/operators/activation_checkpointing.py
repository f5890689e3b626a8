"""Backward computes parts of the forward pass again.

## What it finds
Operators that activation checkpointing runs again, for more than 10 % of the step (catalogue: D23). They run inside
`CheckpointFunctionBackward`, or are forward operators inside a function of autograd. A GPU must be busy for 80 % of
the step or more. Without a GPU the operators' own time counts.

## Why it costs time
Checkpointing keeps no activations of a layer, and computes them again in backward. If all layers are checkpointed,
that is one more forward pass: a quarter of the step.

## What to do
If memory is left, checkpoint fewer layers: every second one costs half of it. Or let a policy keep the results of
matrix products, which are the dearest.

## How the gain is predicted
High end: 1.4 times the time of forward operators that run again, if no layer is checkpointed. Low end: half of that,
for every second layer. Measured on a CPU: 1.07 to 1.35 times.

## When it is wrong
Without checkpointing the activations of these layers have to fit into memory. If it buys a larger batch, it may be
worth its time. `stepscope show memory_peaks` tells how much memory is left.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl

from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.lib.host_events import HostTree, host_tree
from stepscope.core.finding import Advice, Evidence, Finding, Rule, Title
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.launchers import Bools, inside
from stepscope.rules.operators.lib.work_or_operators import OperatorCost, costly, operator_costs

__all__ = ["RULE"]

MIN_SHARE = 0.10  # of the step: a quarter is usual, and half of a tenth is above the noise between two runs
SAVED = (0.7, 1.4)  # of the time: every second layer, or all with what no forward operator shows
_CHECKPOINT = "CheckpointFunctionBackward"
_FUNCTION = r"^autograd::engine::evaluate_function|Backward\d*$"
_OF_TORCH = r"^[A-Z]\w*Backward\d+$"
_FORWARD = (
    r"^aten::(linear|conv[123]d|layer_norm|batch_norm|group_norm|rms_norm|scaled_dot_product_attention|gelu|silu|relu_?|"
    r"softmax|dropout|embedding)$"
)
"""Operators of the forward pass that no formula of a derivative calls."""


def check(run: Run) -> Iterator[Finding]:
    slow = costly(run.per_rank(_costs, chain), MIN_SHARE)
    if not slow:
        return
    worst = slow[0]
    yield Finding(
        title=Title("Activation checkpointing computes {} per step again ({})", worst.takes),
        cause="model",
        evidence=(
            worst.evidence("recomputation per step"),
            Evidence(label="kernels or operators", value=worst.count, unit="count", source=worst.source),
        ),
        gain=worst.gain(SAVED, "forward operators run again in backward, and code around them", "structural"),
        advice=(
            Advice(
                text="If memory is left, checkpoint every second layer",
                code="""\
for number, layer in enumerate(layers):
    x = checkpoint(layer, x, use_reentrant=False) if number % 2 else layer(x)""",
            ),
            Advice(text="See how much memory is left", code="stepscope show memory_peaks RUN", language="shell"),
        ),
        ranks=tuple(sorted(one.rank for one in slow)),
        where=setting_places(run, r"\bcheckpoint(_sequential)?\(", worst.rank),
    )


def _costs(run: Run) -> tuple[OperatorCost, ...]:
    tree = host_tree(run)
    marked = _again(tree)
    return operator_costs(run, marked) if marked.any() else ()


def _again(tree: HostTree) -> Bools:
    """The rows of forward operators that run in backward, and what lies inside."""
    function = tree.passing(pl.col("name").str.contains(_FUNCTION))
    parent, parts = tree.nesting.parent, np.zeros(len(function), dtype=np.bool_)
    child = parent >= 0
    if not (child & function[parent]).any():
        return parts
    direct = child & function[parent] & tree.operators & ~function
    parts |= direct & tree.passing(pl.col("name") == _CHECKPOINT)[parent]
    of_torch = direct & tree.passing(pl.col("name").str.contains(_OF_TORCH))[parent]
    forward = of_torch & tree.passing(pl.col("name").str.contains(_FORWARD))
    if forward.any():
        rows = tree.frame.select("start", "end", parent=parent, row=pl.int_range(pl.len())).filter(pl.Series(of_torch))
        known = rows.filter(pl.Series(forward[rows["row"].to_numpy()])).group_by("parent")
        spans = known.agg(pl.col("start").min().alias("first"), pl.col("end").max().alias("last"))
        within = rows.join(spans, on="parent").filter(
            (pl.col("start") >= pl.col("first")) & (pl.col("end") <= pl.col("last"))
        )
        parts[within["row"].to_numpy()] = True
    return inside(tree, parts)


def example(synth: Synth, fixed: bool) -> None:
    again = 0 if fixed else 25
    length = 75 + again
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.host("aten::linear", "operator", start, start + 25)
        if again:
            synth.host("CheckpointFunctionBackward", "operator", start + 25, start + length)
            synth.host("aten::linear", "operator", start + 25, start + 50)
        function = "autograd::engine::evaluate_function: AddmmBackward0"
        synth.host(function, "operator", start + 25 + again, start + length)
        synth.host("aten::mm", "operator", start + 25 + again, start + length)


RULE = Rule(check=check, example=example)
