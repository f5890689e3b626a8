"""Batches are copied to the device from pageable memory.

## What it finds
Copies of 64 KB and more from ordinary (pageable) host memory, which together leave the device without other work for
more than 5 % of the step.

## Why it costs time
The driver copies pageable memory through a small pinned buffer of its own, at a fraction of the speed of the bus. The
host waits meanwhile, so the copy cannot overlap with computing.

## What to do
`pin_memory=True` on the DataLoader, and `non_blocking=True` where the batch moves to the device.

## How the gain is predicted
High end: the time of these copies in which no kernel runs; a pinned copy that does not block can hide behind the
previous step. Low end: half of it, for a copy that is only faster.

## When it is wrong
Memory that is pinned for one copy and thrown away costs more than it saves. Data that the host reads back at once
cannot be copied behind anything.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.input_pipeline.lib.loader_facts import loader_facts
from stepscope.analyses.lib.device_work import device_work
from stepscope.core.finding import Advice, Finding, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.rules.device.lib.copies import copy_lines, exposed_copies

__all__ = ["RULE"]

MIN_BYTES = 64_000  # smaller copies travel with the launch; pinning them gains nothing
PAGEABLE = r"(?i)pageable -> device"
_SLOW = (pl.col("name").str.contains(PAGEABLE) & (pl.col("bytes").fill_null(MIN_BYTES) >= MIN_BYTES)).fill_null(False)


def check(run: Run) -> Iterator[Finding]:
    slow = exposed_copies(run, _chosen)
    if not slow:
        return
    worst = slow[0]
    yield Finding(
        title=Title("Batches are copied from pageable memory: {} exposed per step", (Value(worst.time, "ns"),)),
        cause="data-reading",
        evidence=worst.evidence,
        gain=worst.gain("pageable copies while no kernel runs"),
        advice=(
            Advice(text="Set pin_memory=True", code="DataLoader(..., pin_memory=True)"),
            Advice(text="Copy with non_blocking=True", code="batch = batch.to(device, non_blocking=True)"),
        ),
        ranks=tuple(sorted(copies.device.rank for copies in slow)),
        where=(*loader_facts(run, worst.device.rank).where, *copy_lines(run, _chosen, worst)),
    )


def _chosen(run: Run) -> pl.Series:
    return device_work(run, "name", "bytes").select(_SLOW).to_series()


def example(synth: Synth, fixed: bool) -> None:
    copy = 0 if fixed else 15
    length = 85 + copy
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        if fixed:
            synth.kernel(
                start + 20, start + 28, "Memcpy HtoD (Pinned -> Device)", kind="memcpy", bytes=50_000_000, stream="8"
            )
        else:
            synth.kernel(start, start + 15, "Memcpy HtoD (Pageable -> Device)", kind="memcpy", bytes=50_000_000)
        synth.kernel(start + copy, start + length)


RULE = Rule(check=check, example=example)
