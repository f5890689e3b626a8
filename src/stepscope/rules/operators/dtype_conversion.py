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
from stepscope.analyses.lib.launch_lines import launch_lines
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.core.finding import Advice, Finding, Rule, Title
from stepscope.core.kernels import name_test
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.chosen_work import Chosen, above, chosen_work, work_finding

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: half of it, the low end of the gain, is above the noise between two runs
SAVED = (0.5, 1.0)  # of the kernels' time; half if the other casts are needed
_CASTS = re.compile(r"(?:bfloat16|float16|float8_\w+|bfloat16tofloat32)_copy_kernel|direct_copy_kernel.*LoadWithCast")


def check(run: Run) -> Iterator[Finding]:
    need_gpu(run)
    slow = above(run.per_rank(_busy, chain), MIN_SHARE)
    if slow:
        yield work_finding(
            run,
            slow,
            _lines,
            Title("Casts between types take {} per step ({})", slow[0].takes),
            labels=("casts per step", "cast kernels per step"),
            part=SAVED,
            basis="time of the cast kernels",
            advice=_ADVICE,
        )


def _chosen(run: Run) -> pl.Series:
    return name_test(work_names(run), lambda name: _CASTS.search(name) is not None)


def _busy(run: Run) -> tuple[Chosen, ...]:
    return chosen_work(run, _chosen(run))


def _lines(run: Run) -> pl.DataFrame:
    return launch_lines(run, _chosen(run))


_ADVICE = (
    Advice(text="Keep the model in one type", code="model = model.to(torch.bfloat16)"),
    Advice(text="Or compile it, which merges casts with their neighbors", code="model = torch.compile(model)"),
)


def example(synth: Synth, fixed: bool) -> None:
    cast = 0 if fixed else 10
    length = 90 + cast
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.kernel(start, start + 90, "gemm", blocks_per_sm=4.0)
        if cast:
            name = "at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)"
            synth.kernel(start + 90, start + length, name, blocks_per_sm=4.0)


RULE = Rule(check=check, example=example)
