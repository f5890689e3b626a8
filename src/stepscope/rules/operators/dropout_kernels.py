"""Dropout and other random numbers take a part of the step.

## What it finds
Devices that are busy for 80 % of the step or more. Kernels that draw random numbers, or multiply by the mask that was
drawn, take more than 4 % of it (catalogue: D25). Dropout inside a fused attention kernel does not count.

## Why it costs time
Each dropout is a pass over the tensor that writes a mask, and another one in backward that reads it. The arithmetic of
the random numbers comes on top.

## What to do
Compile the model: dropout is then merged with its neighbors, and the mask is drawn again instead of kept. Remove layers
with `p=0.0`, and dropout that a large dataset does not need. Draw noise in the type that the model computes in.

## How the gain is predicted
High end: all of the time in these kernels. Low end: half of it, for random numbers that stay.

## When it is wrong
Where the model is trained for its noise (diffusion, variational models), the numbers are needed; only the compiler
helps then.
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

MIN_SHARE = 0.04  # of the step: half of it, the low end of the gain, is near the noise between two runs
SAVED = (0.5, 1.0)  # of the kernels' time
_RANDOM = re.compile(
    r"fused_dropout|masked_scale_kernel|native_dropout|distribution_(?:elementwise|nullary)|bernoulli_k"
)


def check(run: Run) -> Iterator[Finding]:
    yield from work_findings(
        run,
        _chosen,
        MIN_SHARE,
        "Dropout and random numbers take {} per step ({})",
        labels=("random numbers per step", "such kernels per step"),
        part=SAVED,
        basis="time of the kernels that draw or apply random numbers",
        advice=_ADVICE,
    )


def _chosen(run: Run) -> pl.Series:
    return name_test(work_names(run), lambda name: _RANDOM.search(name) is not None)


_ADVICE = (
    Advice(text="Compile the model, which merges dropout with its neighbors", code="model = torch.compile(model)"),
    Advice(text="Remove dropout that the amount of data makes unnecessary"),
)


def example(synth: Synth, fixed: bool) -> None:
    name = "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, unsigned int>()"
    work_example(synth, name, 0 if fixed else 10)


RULE = Rule(check=check, example=example)
