"""Collectives run while nothing computes.

## What it finds
Devices that spend more than 10 % of the step in communication kernels (NCCL, RCCL) with no computing kernel beside
them.

## Why it costs time
A collective that overlaps with backward is free; an exposed one makes the device wait for the network, or for the
slowest rank.

## What to do
Let gradients travel while backward goes on: DistributedDataParallel with large buckets and without
`find_unused_parameters`; for FSDP, prefetch. Accumulate gradients under `no_sync()`, compress them, or raise the batch
of each rank.

## How the gain is predicted
High end: all exposed communication. Low end: half of it, because the last bucket has nothing left to hide behind.

## When it is wrong
The time of a collective includes waiting for the last rank to arrive. If one rank is late, mend that rank: no overlap
helps, and the exposed time of the others is a symptom.
"""

from collections.abc import Iterator

from stepscope.analyses._device_idle import device_idle
from stepscope.analyses._work import has_gpu
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MIN_SHARE = 0.10  # of the step: torch_tb_profiler's limit for communication


def check(run: Run) -> Iterator[Finding]:
    if not has_gpu(run):
        return
    slow = [row for row in device_idle(run) if row.communication > MIN_SHARE * row.step]
    if not slow:
        return
    worst = max(slow, key=lambda row: row.communication / row.step)
    exposed, step = worst.communication, worst.step
    yield Finding(
        title="Communication is exposed",
        cause="configuration",
        evidence=(
            Evidence(label="exposed communication per step", value=exposed, unit="ns", source="device-time"),
            Evidence(label="share of the step", value=exposed / step, unit="ratio", source="device-time"),
            Evidence(label="computing", value=worst.compute / step, unit="ratio", source="device-time"),
        ),
        gain=Gain(
            low_ns=int(exposed / 2),
            high_ns=int(exposed),
            basis="communication that no computing hides, waiting for other ranks included",
            confidence="structural",
        ),
        advice=_ADVICE,
        ranks=tuple(row.rank for row in slow),
    )


_ADVICE = (
    Advice(
        text="Send gradients in large buckets while backward goes on",
        code="model = DistributedDataParallel(model, bucket_cap_mb=100, gradient_as_bucket_view=True)",
    ),
    Advice(
        text="When accumulating gradients, communicate once per step",
        code="with model.no_sync():  # all micro-batches but the last\n    loss.backward()",
    ),
    Advice(text="Raise the batch of each rank, so that there is more to compute per collective"),
)


def example(synth: Synth, fixed: bool) -> None:
    length = 80 if fixed else 100
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.kernel(start, start + 70)
        synth.kernel(start + length - 30, start + length - 10, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream="9")
        synth.kernel(start + length - 10, start + length)


RULE = Rule(check=check, example=example)
