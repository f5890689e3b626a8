"""Tensors are cast between types again and again.

## What it finds
Devices that are busy for 80 % of the step or more. Kernels that copy a tensor into another type take more than 5 % of
it (catalogue: D18). The kernel's name tells of the cast.

## Why it costs time
A cast reads and writes the whole tensor and computes nothing. Autocast casts weights and inputs before each matrix
product; a model that mixes types by its own `.float()` and `.to()` casts back and forth.

## What to do
Keep weights and activations in one type, `model.to(torch.bfloat16)` with an optimizer that keeps float32 copies, or let
`torch.compile` merge each cast with the operator beside it. Remove `.float()` that nothing needs.

## How the gain is predicted
High end: all of the time in casts. Low end: half of it, for those that the model needs: losses, norms, inputs.

## When it is wrong
Casts of a loss to float32 keep it exact. Where casts are merged with other work by a compiler, the rule does not see
them.
"""

import re
from collections.abc import Iterator

import polars as pl

from stepscope.analyses.lib.device_work import work_names
from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.kernels import name_test
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.chosen_work import work_example, work_findings

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: half of it, the low end of the gain, is above the noise between two runs
SAVED = (0.5, 1.0)  # of the kernels' time; half if the other casts are needed
_CASTS = re.compile(r"(?:bfloat16|float16|float8_\w+|bfloat16tofloat32)_copy_kernel|direct_copy_kernel.*LoadWithCast")


def check(run: Run) -> Iterator[Finding]:
    yield from work_findings(
        run,
        _chosen,
        MIN_SHARE,
        "Casts between types take {} per step ({})",
        labels=("casts per step", "cast kernels per step"),
        part=SAVED,
        basis="time of the cast kernels",
        advice=_ADVICE,
    )


def _chosen(run: Run) -> pl.Series:
    return name_test(work_names(run), lambda name: _CASTS.search(name) is not None)


_ADVICE = (
    Advice(text="Keep the model in one type", code="model = model.to(torch.bfloat16)"),
    Advice(text="Or compile it, which merges casts with their neighbors", code="model = torch.compile(model)"),
)


def example(synth: Synth, fixed: bool) -> None:
    work_example(synth, "at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)", 0 if fixed else 10)


RULE = Rule(check=check, example=example)
