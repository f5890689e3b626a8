"""Convolutions run in float32 on a device that has tensor cores for them.

## What it finds
Devices of compute capability 7.0 and later that are busy for 80 % of the step or more. Kernels that convolve float32
without tensor cores take more than 10 % of it (catalogue: D01, D02). Kernels of cuBLAS count if a convolution launched
them.

## Why it costs time
Tensor cores multiply float16, bfloat16 and, from Ampere on, TF32 several times as fast as other units multiply
float32. A convolution in float32 also moves twice the bytes.

## What to do
Mixed precision with `torch.autocast`: bfloat16 from Ampere on, float16 with a `GradScaler` before. For TF32, leave
`torch.backends.cudnn.allow_tf32` on, which is the default.

## How the gain is predicted
These kernels become 1.5 to 3 times as fast: from a third to two thirds of their time. Published peaks rise eightfold
(V100: 15.7 to 125 TFLOPS; A100: 19.5 to 156), but memory and small images keep real ones far below.

## When it is wrong
Depthwise convolutions and those of few channels are limited by memory, and gain no more than the smaller type gives.
With channels that are no multiple of 8 cuDNN may not use tensor cores.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.device.lib.fp32_matmul import fp32_work
from stepscope.analyses.lib.launch_lines import launch_lines
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.core.finding import Advice, Finding, Rule, Title, Value
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.chosen_work import Chosen, above, chosen_work, work_finding

__all__ = ["RULE"]

MIN_SHARE = 0.10  # of the step: a third of it, the low end of the gain, is about 3 %
SAVED = (1 / 3, 2 / 3)  # of the kernels' time, if they become 1.5 or 3 times as fast
WITH_TENSOR_CORES = 7.0  # compute capability from which there are tensor cores, for float16
WITH_TF32 = 8.0  # compute capability from which they multiply TF32 and bfloat16 too


def check(run: Run) -> Iterator[Finding]:
    need_gpu(run)
    found = above(run.per_rank(_busy, chain), MIN_SHARE)
    slow = [(one, capability) for one in found if (capability := _capability(run, one)) >= WITH_TENSOR_CORES]
    if not slow:
        return
    worst, capability = slow[0]
    yield work_finding(
        run,
        [one for one, _ in slow],
        _lines,
        Title(
            "Convolutions run in FP32 without Tensor Cores: {} of GPU time",
            (Value(worst.share / worst.device.utilization, "ratio"),),
        ),
        labels=("FP32 convolution per step", "convolution kernels per step"),
        part=SAVED,
        basis="published peaks, reduced for memory and small images",
        advice=_NEW if capability >= WITH_TF32 else _OLD,
        cause="configuration",
        confidence="table",
    )


def _busy(run: Run) -> tuple[Chosen, ...]:
    return chosen_work(run, fp32_work(run, "fp32_convolution"))


def _lines(run: Run) -> pl.DataFrame:
    return launch_lines(run, fp32_work(run, "fp32_convolution"))


def _capability(run: Run, one: Chosen) -> float:
    """Of the device; 0 where the trace does not tell."""
    own = (pl.col("rank") == one.device.rank) & pl.col("device").eq_missing(one.device.device)
    known = run.optional("devices").filter(own)["capability"].cast(pl.Float64, strict=False).max()
    return known if isinstance(known, float) else 0.0


_NEW = (
    Advice(
        text="Convolve in bfloat16",
        code='with torch.autocast("cuda", torch.bfloat16):\n    output = model(inputs)',
    ),
    Advice(text="Or keep TF32 on for convolutions", code="torch.backends.cudnn.allow_tf32 = True"),
)
_OLD = (
    Advice(
        text="Convolve in float16, and scale the loss",
        code="""\
scaler = torch.amp.GradScaler("cuda")  # once
with torch.autocast("cuda", torch.float16):
    loss = criterion(model(inputs), targets)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()""",
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    synth.add("devices", device=0, name="A100", capability="8.0", sms=108)
    convolve = 20 if fixed else 50
    length = 50 + convolve
    name = "ampere_bf16_s16816cudnn_bf16_128x64" if fixed else "void implicit_convolve_sgemm<float, float, 128, 6, 7>"
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.kernel(start, start + 50, "batch_norm", blocks_per_sm=4.0)
        synth.kernel(start + 50, start + length, name, blocks_per_sm=4.0)


RULE = Rule(check=check, example=example)
