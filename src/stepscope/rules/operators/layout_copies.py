"""Tensors are copied within the device into another layout.

## What it finds
Devices that are busy for 80 % of the step or more. Copies within the device that change no type take more than 5 % of
it (catalogue: D17). They come from `contiguous`, `clone`, `reshape` and `copy_`.

## Why it costs time
A transposed view costs nothing, until an operator needs its elements in order. Then all of them are read and written
once more.

## What to do
Choose the order of dimensions so that no copy is needed: let the layer before write what the next one reads. Drop
`.contiguous()` and `.clone()` that nothing needs, or compile the model.

## How the gain is predicted
High end: all of the time in these copies. Low end: half of it, for those that operators need.

## When it is wrong
Copies into buffers of communication, caches and checkpoints are needed. An operator on a strided view may become slower
than with the copy.
"""

import re
from collections.abc import Iterator

import polars as pl

from stepscope.analyses.lib.device_work import device_work, work_names
from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.kernels import name_test
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.chosen_work import work_example, work_findings

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: half of it, the low end of the gain, is above the noise between two runs
SAVED = (0.5, 1.0)  # of the kernels' time; half if the other copies are needed
_COPIES = re.compile(
    r"gpu_kernel_impl_nocast<[^{]*direct_copy_kernel|vectorized_elementwise_kernel<\d+, [^{]*direct_copy_k"
)
_WITHIN = re.compile(r"^Memcpy DtoD\b")


def check(run: Run) -> Iterator[Finding]:
    yield from work_findings(
        run,
        _chosen,
        MIN_SHARE,
        "Copies into another layout take {} per step ({})",
        labels=("layout copies per step", "copies per step"),
        part=SAVED,
        basis="time of the copies within the device",
        advice=_ADVICE,
    )


def _chosen(run: Run) -> pl.Series:
    names = work_names(run)
    copies = name_test(names, lambda name: _COPIES.search(name) is not None)
    return copies | (device_work(run)["kind"] == "memcpy") & name_test(names, lambda name: bool(_WITHIN.match(name)))


_ADVICE = (
    Advice(
        text="Reshape without a copy: keep the order that the next operator reads",
        code="heads = x.view(batch, length, heads, -1).transpose(1, 2)  # a view, no contiguous()",
    ),
    Advice(text="Or compile the model, which merges copies with their neighbors", code="model = torch.compile(model)"),
)


def example(synth: Synth, fixed: bool) -> None:
    name = "at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>"
    work_example(synth, name, 0 if fixed else 10)


RULE = Rule(check=check, example=example)
