"""Matrix products in half precision have sizes that tensor cores cannot load at full speed.

## What it finds
Devices that are busy for 80 % of the step or more. Kernels of half-precision products that load one or two elements at
a time, by their names (`align1`, `align2`), take more than 5 % of the step.

## Why it costs time
Tensor cores take 16 bytes at a time: eight elements of float16 or bfloat16. A vocabulary of 50,257 or a width of 1,001
is no multiple of eight, so the library picks kernels that load in smaller pieces.

## What to do
Round sizes up to a multiple of 8, better 64: vocabulary, hidden sizes, heads, and the last batch. Pad sequences to
multiples of 8.

## How the gain is predicted
A quarter to a half of these kernels' time: the published peaks do not change, but wider loads and larger tiles reach
more of them.

## When it is wrong
A view into a larger tensor may start at an odd element, although its sizes are round; copy it then.
"""

import re
from collections.abc import Iterator

import polars as pl

from stepscope.analyses.lib.device_work import device_work, work_names
from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.kernels import name_test
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.chosen_work import work_findings

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: a quarter of it, the low end of the gain, is above 1 %
SAVED = (0.25, 0.5)  # of the kernels' time
_UNALIGNED = re.compile(r"(?=.*(gemm|s1688|s16816|h884|h1688))(?=.*(f16|bf16|h884|h1688|half)).*_align[12](?!\d)", re.I)


def check(run: Run) -> Iterator[Finding]:
    yield from work_findings(
        run,
        _chosen,
        MIN_SHARE,
        "Matmuls of unaligned sizes take {} per step ({})",
        labels=("unaligned products per step", "kernels per step"),
        part=SAVED,
        basis="wider loads and larger tiles",
        advice=(
            Advice(
                text="Round sizes up to a multiple of 64",
                code="vocabulary = (vocabulary + 63) // 64 * 64  # before the model is built",
            ),
        ),
        cause="model",
        confidence="table",
    )


def _chosen(run: Run) -> pl.Series:
    return (device_work(run)["role"] == "compute") & name_test(
        work_names(run), lambda name: bool(_UNALIGNED.match(name))
    )


def example(synth: Synth, fixed: bool) -> None:
    multiply = 25 if fixed else 40
    length = 60 + multiply
    align = 8 if fixed else 1
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.kernel(start, start + 60)
        name = f"cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x3_nn_align{align}"
        synth.kernel(start + 60, start + length, name)


RULE = Rule(check=check, example=example)
