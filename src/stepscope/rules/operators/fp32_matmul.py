"""Matrices are multiplied in float32 on a device that has tensor cores for it.

## What it finds
Devices of compute capability 8.0 and later that are busy for 80 % of the step or more. Kernels that multiply float32
matrices without tensor cores take more than 10 % of it.

## Why it costs time
TF32 keeps the range of float32 and ten bits of its mantissa, and tensor cores multiply it up to eight times as fast.
PyTorch leaves it off for matrix products unless asked.

## What to do
`torch.set_float32_matmul_precision("high")`, or mixed precision with bfloat16.

## How the gain is predicted
These kernels become 1.5 to 3 times as fast: from a third to two thirds of their time. The published peak of an A100
rises eightfold (19.5 to 156 TFLOPS), but small matrices and memory keep real ones far below.

## When it is wrong
Where ten bits of mantissa are not enough: solvers, some losses, comparisons with a reference. If the matrices are
small, memory or launches limit and little changes.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.bound.lib.device_shares import DeviceIdle, device_idle
from stepscope.analyses.bound.lib.thresholds import UTILIZED
from stepscope.analyses.device.lib.fp32_matmul import fp32_matmul_kernels, fp32_work
from stepscope.analyses.lib.launch_lines import launch_lines, launch_places
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.intervals import intersect, spans, total, union
from stepscope.core.run import Run, chain, stack
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MIN_SHARE = 0.10  # of the step: a third of it, the low end of the gain, is about 3 %
SAVED = (1 / 3, 2 / 3)  # of the kernels' time, if they become 1.5 or 3 times as fast
WITH_TF32 = 8.0  # compute capability from which tensor cores multiply TF32


def check(run: Run) -> Iterator[Finding]:
    need_gpu(run)
    slow = [
        (time, row)
        for time, row in run.per_rank(_busy, chain)
        if time > MIN_SHARE * row.step and _could_use_tf32(run, row)
    ]
    if not slow:
        return
    time, worst = max(slow, key=lambda found: found[0] / found[1].step)
    yield Finding(
        title=Title(
            "Matmuls run in FP32 without Tensor Cores: {} of GPU time",
            (Value(time / (worst.utilization * worst.step), "ratio"),),
        ),
        cause="configuration",
        evidence=(
            Evidence(label="FP32 matmul per step", value=time, unit="ns", source="kernels", share=time / worst.step),
        ),
        gain=Gain(
            low_ns=int(SAVED[0] * time),
            high_ns=int(SAVED[1] * time),
            step_ns=int(worst.step),
            basis="published FP32 and TF32 peaks, reduced for memory and small matrices",
            confidence="table",
            pool="device",
        ),
        advice=(
            Advice(text="Enable TF32 for matmuls", code='torch.set_float32_matmul_precision("high")'),
            Advice(
                text="Or compute in bfloat16",
                code='with torch.autocast("cuda", torch.bfloat16):\n    output = model(inputs)',
            ),
        ),
        ranks=tuple(found[1].rank for found in slow),
        where=launch_places(run.per_rank(_lines, stack, only=worst.rank), worst.rank, time / worst.step),
    )


def _lines(run: Run) -> pl.DataFrame:
    """The lines that multiply so."""
    return launch_lines(run, fp32_work(run, "fp32_matmul"))


def _busy(run: Run) -> tuple[tuple[float, DeviceIdle], ...]:
    """Time of float32 matrix kernels in ns per step on each device that is busy, and what else it did."""
    return tuple((_matmul(run, row), row) for row in device_idle(run) if row.utilization >= UTILIZED)


def _matmul(run: Run, row: DeviceIdle) -> float:
    own = (pl.col("rank") == row.rank) & pl.col("device").eq_missing(row.device)
    kernels = union(spans(fp32_matmul_kernels(run).filter(own & pl.col("fp32_matmul"))))
    return total(intersect(kernels, row.window)) / row.steps


def _could_use_tf32(run: Run, row: DeviceIdle) -> bool:
    """True if the device has TF32 and the process did not switch it on; kernels tell where nothing else does."""
    devices = run.optional("devices").filter((pl.col("rank") == row.rank) & pl.col("device").eq_missing(row.device))
    capability = devices["capability"].cast(pl.Float64, strict=False).max()
    precision = run.optional("processes").filter(pl.col("rank") == row.rank)["matmul_precision"].drop_nulls()
    switched_on = precision.is_in(["high", "medium"]).any()
    return isinstance(capability, float) and capability >= WITH_TF32 and not switched_on


def example(synth: Synth, fixed: bool) -> None:
    synth.add("devices", device=0, name="A100", capability="8.0", sms=108)
    multiply = 20 if fixed else 50
    length = 50 + multiply
    name = "ampere_sgemm_128x64_tf32_s1688_nn" if fixed else "ampere_sgemm_128x64_nn"
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.kernel(start, start + 50, "softmax", blocks_per_sm=4.0)
        synth.kernel(start + 50, start + length, name, blocks_per_sm=4.0)


RULE = Rule(check=check, example=example)
