"""Convolutions convert their inputs between the layouts NCHW and NHWC.

## What it finds
Devices that are busy for 80 % of the step or more. Kernels that only convert between NCHW and NHWC around convolutions
take more than 3 % of it (catalogue: D05).

## Why it costs time
Tensor cores convolve in NHWC. A model in PyTorch's default layout, NCHW, has its images and weights converted before
each convolution, and the result converted back.

## What to do
Keep model and input in `channels_last`. The model computes the same, and each operator keeps the layout.

## How the gain is predicted
High end: all of the time in these kernels. Low end: half of it, if operators without a version for this layout convert
back and forth. What batch normalization and pooling gain beside it is not counted.

## When it is wrong
Operators without `channels_last` support convert anew. Convolutions in three dimensions need
`torch.channels_last_3d`.
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

MIN_SHARE = 0.03  # of the step: less drowns in the noise between two runs
SAVED = (0.5, 1.0)  # of the kernels' time; half if some operators convert back
_CONVERTS = re.compile(r"nchwToNhwc|nhwcToNchw|nchwAddPadding|convertTensor_kernel|batched_transpose_\d+x\d+_")


def check(run: Run) -> Iterator[Finding]:
    yield from work_findings(
        run,
        _chosen,
        MIN_SHARE,
        "Converting between NCHW and NHWC takes {} per step ({})",
        labels=("layout conversion per step", "conversions per step"),
        part=SAVED,
        basis="time of the conversion kernels",
        advice=(
            Advice(
                text="Keep the model in channels_last",
                code="model = model.to(memory_format=torch.channels_last)",
            ),
            Advice(text="And its images", code="images = images.to(device, memory_format=torch.channels_last)"),
        ),
        cause="configuration",
    )


def _chosen(run: Run) -> pl.Series:
    return name_test(work_names(run), lambda name: _CONVERTS.search(name) is not None)


def example(synth: Synth, fixed: bool) -> None:
    name = "void cudnn::ops::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, false, true>"
    other = "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwc"
    work_example(synth, name, 0 if fixed else 10, other=other)


RULE = Rule(check=check, example=example)
