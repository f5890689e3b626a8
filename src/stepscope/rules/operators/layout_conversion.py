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
from stepscope.analyses.lib.launch_lines import launch_lines
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.core.finding import Advice, Finding, Rule, Title
from stepscope.core.kernels import name_test
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.chosen_work import Chosen, above, chosen_work, work_finding

__all__ = ["RULE"]

MIN_SHARE = 0.03  # of the step: less drowns in the noise between two runs
SAVED = (0.5, 1.0)  # of the kernels' time; half if some operators convert back
_CONVERTS = re.compile(r"nchwToNhwc|nhwcToNchw|nchwAddPadding|convertTensor_kernel|batched_transpose_\d+x\d+_")


def check(run: Run) -> Iterator[Finding]:
    need_gpu(run)
    slow = above(run.per_rank(_busy, chain), MIN_SHARE)
    if slow:
        yield work_finding(
            run,
            slow,
            _lines,
            Title("Converting between NCHW and NHWC takes {} per step ({})", slow[0].takes),
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


def _busy(run: Run) -> tuple[Chosen, ...]:
    return chosen_work(run, _chosen(run))


def _lines(run: Run) -> pl.DataFrame:
    return launch_lines(run, _chosen(run))


def example(synth: Synth, fixed: bool) -> None:
    convert = 0 if fixed else 10
    length = 90 + convert
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.kernel(start, start + 90, "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwc", blocks_per_sm=4.0)
        if convert:
            name = "void cudnn::ops::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, false, true>"
            synth.kernel(start + 90, start + length, name, blocks_per_sm=4.0)


RULE = Rule(check=check, example=example)
