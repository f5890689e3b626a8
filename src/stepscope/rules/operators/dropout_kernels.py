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
from stepscope.analyses.lib.launch_lines import launch_lines
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.core.finding import Advice, Finding, Rule, Title
from stepscope.core.kernels import name_test
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.chosen_work import Chosen, above, chosen_work, work_finding

__all__ = ["RULE"]

MIN_SHARE = 0.04  # of the step: half of it, the low end of the gain, is near the noise between two runs
SAVED = (0.5, 1.0)  # of the kernels' time
_RANDOM = re.compile(
    r"fused_dropout|masked_scale_kernel|native_dropout|distribution_(?:elementwise|nullary)|bernoulli_k"
)


def check(run: Run) -> Iterator[Finding]:
    need_gpu(run)
    slow = above(run.per_rank(_busy, chain), MIN_SHARE)
    if slow:
        yield work_finding(
            run,
            slow,
            _lines,
            Title("Dropout and random numbers take {} per step ({})", slow[0].takes),
            labels=("random numbers per step", "such kernels per step"),
            part=SAVED,
            basis="time of the kernels that draw or apply random numbers",
            advice=_ADVICE,
        )


def _chosen(run: Run) -> pl.Series:
    return name_test(work_names(run), lambda name: _RANDOM.search(name) is not None)


def _busy(run: Run) -> tuple[Chosen, ...]:
    return chosen_work(run, _chosen(run))


def _lines(run: Run) -> pl.DataFrame:
    return launch_lines(run, _chosen(run))


_ADVICE = (
    Advice(text="Compile the model, which merges dropout with its neighbors", code="model = torch.compile(model)"),
    Advice(text="Remove dropout that the amount of data makes unnecessary"),
)


def example(synth: Synth, fixed: bool) -> None:
    dropout = 0 if fixed else 10
    length = 90 + dropout
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.kernel(start, start + 90, "gemm", blocks_per_sm=4.0)
        if dropout:
            name = "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, unsigned int>()"
            synth.kernel(start + 90, start + length, name, blocks_per_sm=4.0)


RULE = Rule(check=check, example=example)
