"""Copies from pinned memory, or back to the host, run while the device has nothing to compute.

## What it finds
Copies between host and device of 64 kB and more, not from pageable memory, during which no kernel runs. They take more
than 5 % of the step.

## Why it costs time
A copy from pinned memory can run beside kernels, but only on another stream. On the stream that computes, the next
kernel waits for it. A copy back to the host, such as outputs kept for a metric, holds the next step up as well.

## What to do
Copy the next batch on a stream of its own while this one computes. Keep outputs on the device, or copy them with
`non_blocking=True` into pinned memory. Weights that are offloaded to the host come back in every step: keep them on the
device if they fit.

## How the gain is predicted
High end: the time of these copies without a kernel beside them. Low end: half of it, as copies slow kernels down.

## When it is wrong
If the copy is long because of the bus, and there is nothing to compute meanwhile, only fewer bytes help: smaller types,
or decoding on the device.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.lib.device_work import device_work
from stepscope.core.finding import Advice, Finding, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.rules.device.lib.copies import copy_lines, exposed_copies

__all__ = ["RULE"]

MIN_BYTES = 64_000  # smaller copies wait for the host, not for the bus
_NAME = pl.col("name").str
_SLOW = (
    _NAME.contains(r"(?i)HtoD|DtoH|HostToDevice|DeviceToHost")
    & ~_NAME.contains(r"(?i)pageable -> device")
    & (pl.col("bytes").fill_null(MIN_BYTES) >= MIN_BYTES)
).fill_null(False)


def check(run: Run) -> Iterator[Finding]:
    slow = exposed_copies(run, _chosen)
    if not slow:
        return
    worst = slow[0]
    yield Finding(
        title=Title(
            "Copies between host and device are exposed: {} per step ({})",
            (Value(worst.time, "ns"), Value(worst.share, "ratio")),
        ),
        cause="scheduling",
        evidence=worst.evidence,
        gain=worst.gain("copies while no kernel runs"),
        advice=_ADVICE,
        ranks=tuple(sorted(copies.device.rank for copies in slow)),
        where=copy_lines(run, _chosen, worst),
    )


def _chosen(run: Run) -> pl.Series:
    return device_work(run, "name", "bytes").select(_SLOW).to_series()


_ADVICE = (
    Advice(
        text="Copy the next batch on a stream of its own",
        code="copying = torch.cuda.Stream()  # once\n"
        "with torch.cuda.stream(copying):\n"
        "    following = batch.to(device, non_blocking=True)\n"
        "torch.cuda.current_stream().wait_stream(copying)  # before it is used\n"
        "following.record_stream(torch.cuda.current_stream())",
    ),
    Advice(text="Keep on the device what comes back only for metrics", code="total += loss.detach()"),
)


def example(synth: Synth, fixed: bool) -> None:
    copy = 0 if fixed else 15
    length = 85 + copy
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        at = start + 20 if fixed else start
        name = "Memcpy HtoD (Pinned -> Device)"
        synth.kernel(at, at + 15, name, kind="memcpy", bytes=200_000_000, stream="8" if fixed else "7")
        synth.kernel(start + copy, start + length)


RULE = Rule(check=check, example=example)
