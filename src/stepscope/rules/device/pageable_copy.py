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

from stepscope.analyses.bound.lib.device_shares import DeviceIdle, device_idle
from stepscope.analyses.input_pipeline.lib.loader_facts import loader_facts
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.launch_lines import launch_lines, launch_places
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Rule, Title, Value
from stepscope.core.intervals import intersect, spans, subtract, total
from stepscope.core.run import Run, chain, stack
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: a smaller gain drowns in the noise between two runs
MIN_BYTES = 64_000  # smaller copies travel with the launch; pinning them gains nothing
PAGEABLE = r"(?i)pageable -> device"
_SLOW = (pl.col("name").str.contains(PAGEABLE) & (pl.col("bytes").fill_null(MIN_BYTES) >= MIN_BYTES)).fill_null(False)


def check(run: Run) -> Iterator[Finding]:
    need_gpu(run)
    slow = [found for found in run.per_rank(_pageable, chain) if found[0] > MIN_SHARE * found[2].step]
    if not slow:
        return
    exposed, size, worst = max(slow, key=lambda found: found[0] / found[2].step)
    yield Finding(
        title=Title("Batches are copied from pageable memory: {} exposed per step", (Value(exposed, "ns"),)),
        cause="data-reading",
        evidence=(
            Evidence(
                label="exposed copies per step",
                value=exposed,
                unit="ns",
                source="device_time",
                share=exposed / worst.step,
            ),
            Evidence(label="bytes copied per step", value=size, unit="bytes", source="device"),
        ),
        gain=Gain(
            low_ns=int(exposed / 2),
            high_ns=int(exposed),
            step_ns=int(worst.step),
            basis="pageable copies while no kernel runs",
            confidence="structural",
            pool="copies",
        ),
        advice=(
            Advice(text="Set pin_memory=True", code="DataLoader(..., pin_memory=True)"),
            Advice(text="Copy with non_blocking=True", code="batch = batch.to(device, non_blocking=True)"),
        ),
        ranks=tuple(found[2].rank for found in slow),
        where=(*loader_facts(run, worst.rank).where, *_places(run, worst.rank, exposed / worst.step)),
    )


def _places(run: Run, rank: int, share: float) -> tuple[Place, ...]:
    """The lines that copy."""
    return launch_places(run.per_rank(_lines, stack, only=rank), rank, share)


def _lines(run: Run) -> pl.DataFrame:
    return launch_lines(run, device_work(run, "name", "bytes").select(_SLOW).to_series())


def _pageable(run: Run) -> tuple[tuple[float, float, DeviceIdle], ...]:
    """Time and bytes of pageable copies on the busiest device of each rank, and what else it did."""
    return tuple((*_copies(run, row), row) for row in device_idle(run))


def _copies(run: Run, row: DeviceIdle) -> tuple[float, float]:
    """Time of pageable copies without a kernel beside them, in ns per step, and their bytes per step."""
    work = device_work(run, "name", "bytes").filter(
        (pl.col("rank") == row.rank) & pl.col("device").eq_missing(row.device)
    )
    copies = work.filter(_SLOW)
    exposed = subtract(spans(copies), spans(work.filter(pl.col("kind") == "kernel")))
    return total(intersect(exposed, row.window)) / row.steps, float(copies["bytes"].sum()) / row.steps


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
