"""Steps take memory from the driver, or give it back, again and again.

## What it finds
Calls such as `cudaMalloc`, `cudaFree` and `cudaHostAlloc` in at least half of the traced steps, while the device idles
because of them for more than 5 % of the step. PyTorch keeps memory that it has once taken, so a steady step makes none.

## Why it costs time
A free waits until the device has finished everything; an allocation takes the driver up to a millisecond. The host
cannot launch meanwhile, and the device runs dry.

## What to do
Take `torch.cuda.empty_cache()` out of the loop, and pin buffers once instead of in every step. If nobody empties the
cache, memory is full or fragmented: let segments grow, make sizes equal from step to step, or use a smaller batch.

## How the gain is predicted
High end: the time that the device idles between such calls and the first work launched after them, no longer than the
calls took. Low end: half of it, since a host that launches slowly leaves gaps anyway.

## When it is wrong
A trace of the first steps shows the cache while it fills; record later steps. Libraries with allocators of their own,
and graphs being captured, allocate by design.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.bound.lib.device_shares import DeviceIdle, device_idle
from stepscope.analyses.lib.runtime_calls import places_of
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.analyses.memory.device_allocations import device_allocations
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: a smaller gain drowns in the noise between two runs
MIN_STEPS = 2  # in a single step it may be the cache that fills
MIN_SHARE_OF_STEPS = 0.5  # what happens more rarely is no part of the usual step
PLACES = 3


def check(run: Run) -> Iterator[Finding]:
    need_gpu(run)
    slow = [row for row in device_idle(run) if row.allocation > MIN_SHARE * row.step and _is_usual(run, row)]
    if not slow:
        return
    worst = max(slow, key=lambda row: row.allocation / row.step)
    calls = _of_rank(run, worst)
    yield Finding(
        title=Title(
            "cudaMalloc/cudaFree {}× per step stall the GPU {}", (_count(calls, worst), Value(worst.allocation, "ns"))
        ),
        cause="configuration",
        evidence=_evidence(worst, calls),
        gain=Gain(
            low_ns=int(worst.allocation / 2),
            high_ns=int(worst.allocation),
            step_ns=int(worst.step),
            basis="GPU idle time after allocator calls",
            confidence="structural",
            pool="host",
        ),
        advice=_ADVICE,
        ranks=tuple(row.rank for row in slow),
        where=places_of(calls, PLACES),
    )


def _of_rank(run: Run, row: DeviceIdle) -> pl.DataFrame:
    return device_allocations(run).filter((pl.col("rank") == row.rank) & (pl.col("stalled") > 0))


def _is_usual(run: Run, row: DeviceIdle) -> bool:
    """Whether one kind of call comes in so many steps that it is no accident."""
    steps = _of_rank(run, row)["steps"].to_list()
    return max(steps, default=0) >= max(MIN_STEPS, MIN_SHARE_OF_STEPS * row.steps)


def _count(calls: pl.DataFrame, row: DeviceIdle) -> Value:
    return Value(float(calls["calls"].sum()) / row.steps, "count")


def _evidence(row: DeviceIdle, calls: pl.DataFrame) -> tuple[Evidence, ...]:
    source = "device_allocations"
    spent, count = float(calls["total"].sum()) / row.steps, _count(calls, row).value
    return (
        Evidence(
            label="GPU idle per step", value=row.allocation, unit="ns", source=source, share=row.allocation / row.step
        ),
        Evidence(label="host time per step", value=spent, unit="ns", source=source),
        Evidence(label="allocator calls per step", value=count, unit="count", source=source),
    )


_ADVICE = (
    Advice(text="Remove empty_cache() from the loop", code="# torch.cuda.empty_cache()"),
    Advice(
        text="Let the allocator grow its segments instead of returning them",
        code="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
        language="shell",
    ),
    Advice(text="Keep tensor sizes equal between steps: pad, or bucket by length"),
)


def example(synth: Synth, fixed: bool) -> None:
    length = 80 if fixed else 100
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.host("cudaLaunchKernel", "runtime", start, start + 1, correlation=2 * step + 1)
        synth.kernel(start, start + 40, correlation=2 * step + 1)
        if not fixed:
            synth.host("cudaFree", "runtime", start + 5, start + 50)
            synth.host("cudaMalloc", "runtime", start + 50, start + 60)
        synth.host("cudaLaunchKernel", "runtime", start + length - 40, start + length - 39, correlation=2 * step + 2)
        synth.kernel(start + length - 40, start + length, correlation=2 * step + 2)


RULE = Rule(check=check, example=example)
