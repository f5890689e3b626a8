"""Matmuls take far longer than the device's peaks allow.

## What it finds
Devices that are busy for 80 % of the step or more, and whose peaks are known. Matmuls take 1.5 times their limit or
more there, and what lies above the limit is more than 10 % of the step. A matmul in float32 without Tensor Cores is
another rule's.

## Why it costs time
The library chooses a kernel by rules of thumb. For unusual sizes, or on a new device, another one may be faster. Small
matmuls do not fill the device, whatever the kernel.

## What to do
Let the kernel be chosen by measuring: `torch.compile` with `mode="max-autotune"`, or TunableOp on AMD devices. Multiply
larger matrices: larger batches, or several products in one.

## How the gain is predicted
The most is the distance to the limit, which is the longer of arithmetic at the peak and bytes at the bandwidth, as in
`roofline`. Good kernels reach 70 % of it. The curve says what matmuls save that become 1.2, 1.5 or 2 times as fast.

## When it is wrong
Peaks are the vendor's, at boost clocks. A device that is capped or shared cannot reach them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound.lib.device_shares import DeviceIdle, device_idle
from stepscope.analyses.bound.lib.thresholds import UTILIZED
from stepscope.analyses.lib.device_work import device_work, work_names
from stepscope.analyses.lib.launch_lines import launch_lines, launch_places
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.analyses.operators.lib.roofline_times import timed_calls
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.kernels import name_test
from stepscope.core.run import Run, chain, stack
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MIN_LOST = 0.10  # of the step above the limit: good kernels save about half of it
MIN_TIMES = 1.5  # of the limit: what is nearer is near enough
CURVE = (1.2, 1.5, 2.0)  # times as fast: nobody knows yet what another kernel or shape brings
REACHED = 0.7  # of the limit, by good kernels
_KERNEL = re.compile(r"gemm|Cijk_|cutlass|matmul|s1688|s16816|nvjet", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Matmuls:
    """Matmuls of a device: ns per step now and at the limit; `gpu` is its name."""

    time: float
    limit: float
    gpu: str
    device: DeviceIdle

    @property
    def lost(self) -> float:
        return self.time - self.limit


def check(run: Run) -> Iterator[Finding]:
    need_gpu(run)
    slow = [
        one for one in run.per_rank(_matmuls, chain)
        if one.lost > MIN_LOST * one.device.step and one.time >= MIN_TIMES * one.limit
    ]  # fmt: skip
    if not slow:
        return
    worst = max(slow, key=lambda one: one.lost / one.device.step)
    step, rank = worst.device.step, worst.device.rank
    yield Finding(
        title=Title(
            "Matmuls take {} per step, {}× their limit on the {}",
            (Value(worst.time, "ns"), Value(round(worst.time / worst.limit, 1), None), worst.gpu),
        ),
        cause="operator",
        evidence=(
            Evidence(label="matmuls per step", value=worst.time, unit="ns", source="speed_of_light",
                     share=worst.time / step),
            Evidence(label="at the limit", value=worst.limit, unit="ns", source="speed_of_light"),
        ),
        gain=_gain(worst),
        advice=_ON_AMD if worst.gpu.startswith("MI") else _ADVICE,
        ranks=tuple(sorted(one.device.rank for one in slow)),
        where=launch_places(run.per_rank(_lines, stack, only=rank), rank, worst.time / step),
    )  # fmt: skip


def _gain(worst: _Matmuls) -> Gain:
    saved = ((factor, min(int(worst.time * (1 - 1 / factor)), int(worst.lost))) for factor in CURVE)
    return Gain(
        low_ns=int(max(0.0, worst.time - worst.limit / REACHED)),
        high_ns=int(worst.lost),
        step_ns=int(worst.device.step),
        basis="matmuls at the published peaks",
        confidence="table",
        pool="device",
        curve=tuple(saved),
    )


def _matmuls(run: Run) -> tuple[_Matmuls, ...]:
    """A row for each busy device whose peaks, and the work of whose matmuls, are known."""
    found = timed_calls(run)
    keys = ("rank", "device")
    wholes = pl.concat([part.select(*keys, "time") for part in (found.calls, found.unknown)])
    whole = {(rank, device): time for rank, device, time in wholes.group_by(keys).agg(pl.col("time").sum()).iter_rows()}
    on_tensor_cores = (pl.col("kind") == "GEMM") & (pl.col("precision") != "float32") & pl.col("ideal").is_not_null()
    sums = found.calls.filter(on_tensor_cores).drop_nulls("gpu").group_by(*keys, "gpu").agg(
        pl.col("time").sum(), limit=pl.min_horizontal("ideal", "time").sum()
    )  # fmt: skip
    busy = {(row.rank, row.device): row for row in device_idle(run) if row.utilization >= UTILIZED}
    return tuple(
        _Matmuls(time=time * share, limit=limit * share, gpu=gpu, device=row)
        for rank, device, gpu, time, limit in sums.iter_rows()
        if (row := busy.get((rank, device))) is not None and limit
        for share in [row.compute / whole[rank, device]]
    )


def _lines(run: Run) -> pl.DataFrame:
    """The lines that launch matrix kernels."""
    products = name_test(work_names(run), lambda name: bool(_KERNEL.search(name)))
    return launch_lines(run, (device_work(run)["role"] == "compute") & products)


_LARGER = Advice(text="Or multiply larger matrices: a larger batch, or several products in one")
_ADVICE = (
    Advice(
        text="Let torch.compile choose the kernels by measuring them",
        code='model = torch.compile(model, mode="max-autotune")',
    ),
    _LARGER,
)
_ON_AMD = (
    Advice(
        text="Let TunableOp choose the kernels by measuring them, once for each size",
        code="PYTORCH_TUNABLEOP_ENABLED=1 COMMAND",
        language="shell",
    ),
    _LARGER,
)


def example(synth: Synth, fixed: bool) -> None:
    """A product of 8192×8192 matrices: 3.5 ms at the peak of an A100. The fix brings it from 12 to 4.9 ms."""
    synth.add("devices", device=0, name="NVIDIA A100-SXM4-40GB", memory=42_505_273_344, sms=108)
    product = 4.9 if fixed else 12.0
    length = 30 + product
    shapes = {"input_dims": "[[8192, 8192], [8192, 8192]]", "input_types": '["c10::BFloat16", "c10::BFloat16"]'}
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.host("aten::mm", "operator", start, start + 1, **shapes)
        synth.host("cudaLaunchKernel", "runtime", start + 0.1, start + 0.2, correlation=step + 1)
        synth.kernel(start + 0.3, start + 30, "softmax", blocks_per_sm=4.0)
        synth.kernel(start + 30, start + length, "ampere_bf16_s16816gemm", blocks_per_sm=4.0, correlation=step + 1)


RULE = Rule(check=check, example=example)
