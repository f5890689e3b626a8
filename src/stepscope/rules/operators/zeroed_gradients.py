"""Gradients are filled with zeros before each step, instead of dropped.

## What it finds
Operators within `optimizer.zero_grad` that write zeros, and the sums by which backward adds to them. Together they take
more than 3 % of the step (catalogue: D09). A GPU must be busy for 80 % of the step or more.

## Why it costs time
`zero_grad(set_to_none=False)` writes every gradient once. Backward then reads it and writes the sum, where it would
keep the new tensor as it is.

## What to do
`zero_grad()`: since torch 2.0 it drops the gradients. DeepSpeed and own loops may still pass `set_to_none=False`.

## How the gain is predicted
0.7 to 1.4 times these operators' time: gradients that are dropped need new memory, but their memory is written less
often. Measured on a CPU: 0.7 to 1.4 times.

## When it is wrong
Code that reads `.grad` between two backward passes needs zeros, or a test for `None`.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.host.lib.model_places import model_places
from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.lib.host_events import host_tree
from stepscope.core.finding import Advice, Finding, Rule, Title
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.launchers import Bools, inside
from stepscope.rules.operators.lib.work_or_operators import OperatorCost, operator_costs

__all__ = ["RULE"]

MIN_SHARE = 0.03  # of the step: the remedy is one argument, and changes no result
SAVED = (0.7, 1.4)  # of the operators' time; measured 0.7 to 1.4 with gradients of 17 million numbers
_NAME = pl.col("name").str
_ZEROS = _NAME.contains(r"^aten::(zero_|_foreach_zero_)$")
_SUMS = _NAME.contains(r"^aten::add_$")


def check(run: Run) -> Iterator[Finding]:
    zeros = {one.rank: one for one in run.per_rank(_zeros, chain)}
    both = {one.rank: one for one in run.per_rank(_both, chain)}
    slow = [rank for rank, one in zeros.items() if one.time and both[rank].share >= MIN_SHARE]
    if not slow:
        return
    worst = max(slow, key=lambda rank: both[rank].share)
    zero, whole = zeros[worst], both[worst]
    yield Finding(
        title=Title("Writing zeros to gradients and adding to them takes {} per step ({})", whole.takes),
        cause="configuration",
        evidence=(zero.evidence("zeros per step"), whole.evidence("zeros and sums")),
        gain=whole.gain(SAVED, "zeros and sums, less what new memory costs", "structural"),
        advice=(Advice(text="Drop the gradients instead of writing zeros", code="optimizer.zero_grad()"),),
        ranks=tuple(sorted(slow)),
        where=setting_places(run, r"set_to_none\s*=") or model_places(run, worst, r"zero_grad\("),
    )


def _zeros(run: Run) -> tuple[OperatorCost, ...]:
    return operator_costs(run, _writing(run))


def _both(run: Run) -> tuple[OperatorCost, ...]:
    return operator_costs(run, _writing(run) | _adding(run))


def _writing(run: Run) -> Bools:
    """Operators that write zeros for `zero_grad`."""
    return _within(run, _ZEROS, _NAME.starts_with("Optimizer.zero_grad"))


def _adding(run: Run) -> Bools:
    """Sums of a gradient that was there and the one that backward computed."""
    return _within(run, _SUMS, _NAME.contains("torch::autograd::AccumulateGrad"))


def _within(run: Run, operators: pl.Expr, around: pl.Expr) -> Bools:
    tree = host_tree(run)
    return tree.operators & tree.passing(operators) & inside(tree, tree.passing(around))


def example(synth: Synth, fixed: bool) -> None:
    """Steps of 60 ms with ten gradients: zeros of 0.5 ms and sums of 1 ms for each; fixed, none."""
    zero, add = (0.0, 0.0) if fixed else (5.0, 10.0)
    length = 60 + zero + add
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.host("Optimizer.zero_grad#SGD.zero_grad", "annotation", start, start + zero + 1)
        if not fixed:
            synth.host("aten::zero_", "operator", start, start + zero)
        synth.host("aten::mm", "operator", start + zero + 1, start + zero + 45)
        name = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
        synth.host(name, "operator", start + zero + 45, start + zero + 50 + add)
        if not fixed:
            synth.host("aten::add_", "operator", start + zero + 45, start + zero + 45 + add)
        synth.host("aten::_foreach_add_", "operator", start + zero + 50 + add, start + length)


RULE = Rule(check=check, example=example)
