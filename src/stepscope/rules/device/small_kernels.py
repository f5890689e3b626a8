"""Kernels leave most of the device empty.

## What it finds
A device that is busy for 80 % of the step or more, with kernels of fewer blocks than it has multiprocessors (SMs). The
idle SMs cost more than 5 % of the step.

## Why it costs time
A kernel of ten blocks on a device of a hundred multiprocessors leaves ninety of them empty, and takes as long as one
ten times its size.

## What to do
Raise the batch, as far as memory allows; merge small kernels with `torch.compile`; run independent branches together.

## How the gain is predicted
High end: the time of these kernels times the part of the device that they leave empty, as if the same work filled the
device. Low end: half of it. For the same number of samples; a larger batch makes the step itself longer.

## When it is wrong
If the host cannot launch faster, filling the device saves nothing; the rule is silent when the device is idle. Time
beside communication does not count: multiprocessors are left to it on purpose. Nor do matrix products that use three
quarters of the device or more: they are as large as the problem allows. Kernels on several streams may share the device
otherwise, which the sum of single kernels does not show.
"""

import re
from collections.abc import Iterator

import polars as pl

from stepscope.analyses.bound.lib.device_shares import DeviceIdle, device_idle
from stepscope.analyses.bound.lib.thresholds import UTILIZED
from stepscope.analyses.device.lib.fp32_matmul import fp32_matmul_kernels, multiplies_fp32
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.launch_lines import launch_lines, launch_places
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.intervals import intersect, spans, subtract, total, union
from stepscope.core.kernels import name_test
from stepscope.core.plural import plural
from stepscope.core.run import Run, chain, stack
from stepscope.core.synth import Synth

__all__ = ["RULE"]

FILLS = 0.75  # blocks per multiprocessor: a product whose tiles leave less than a quarter empty is not small
_MATMUL = re.compile(r"(?i)gemm|matmul|nvjet|cutlass|_mm_|^Cijk_|xmma")
MIN_SHARE = 0.05  # of the step: a smaller gain drowns in the noise between two runs


def check(run: Run) -> Iterator[Finding]:
    need_gpu(run)
    slow = [found for found in run.per_rank(_busy, chain) if found[0] > MIN_SHARE * found[3].step]
    if not slow:
        return
    empty, time, occupancy, worst = max(slow, key=lambda found: found[0] / found[3].step)
    count = worst.per_step(_small(run, worst)["start"].to_numpy())
    rows = [
        Evidence(label="small kernels per step", value=time, unit="ns", source="kernels", share=time / worst.step),
        Evidence(label="idle SM share", value=empty / time, unit="ratio", source="kernels"),
    ]
    if occupancy is not None:
        rows.append(Evidence(label="kernel occupancy", value=occupancy, unit="ratio", source="kernels"))
    yield Finding(
        title=Title(
            f"Only {{}} of the SMs are used by {{}} {plural(count, 'kernel')} per step",
            (Value(1 - empty / time, "ratio"), Value(count, "count")),
        ),
        cause="operator",
        evidence=tuple(rows),
        gain=Gain(
            low_ns=int(empty / 2),
            high_ns=int(empty),
            step_ns=int(worst.step),
            basis="small-kernel time × idle SM share",
            confidence="structural",
        ),
        advice=(
            Advice(text="Increase the batch size, as far as memory allows"),
            Advice(text="Compile the model to fuse small kernels", code="model = torch.compile(model)"),
        ),
        ranks=tuple(found[3].rank for found in slow),
        where=launch_places(run.per_rank(_lines, stack, only=worst.rank), worst.rank, time / worst.step),
    )


def _lines(run: Run) -> pl.DataFrame:
    """The lines that launch such kernels."""
    work = device_work(run, "name", "blocks_per_sm")
    small = (work["role"] == "compute") & (work["blocks_per_sm"] < 1).fill_null(False)
    multiplies = name_test(work["name"], lambda name: _MATMUL.search(name) is not None)
    large = multiplies & (work["blocks_per_sm"] >= FILLS).fill_null(False)
    return launch_lines(run, small & ~large & ~name_test(work["name"], multiplies_fp32))


def _busy(run: Run) -> tuple[tuple[float, float, float | None, DeviceIdle], ...]:
    """What `_empty` gives for each device that is busy, and what else it did."""
    return tuple((*_empty(run, row), row) for row in device_idle(run) if row.utilization >= UTILIZED)


def _empty(run: Run, row: DeviceIdle) -> tuple[float, float, float | None]:
    """Empty device time of small kernels, their time (both ns per step), and kernel occupancy."""
    kernels = _small(run, row)
    if kernels.is_empty():
        return 0.0, 0.0, None
    duration = pl.col("end") - pl.col("start")
    sums = kernels.select(
        ((1 - pl.col("blocks_per_sm")) * duration).sum().alias("empty"),
        duration.sum().alias("time"),
        (pl.col("occupancy") * duration).sum().alias("weighted"),
        duration.filter(pl.col("occupancy").is_not_null()).sum().alias("known"),
    ).row(0, named=True)
    work = device_work(run).filter(_own(row) & (pl.col("role") == "communication"))
    alone = subtract(union(spans(kernels)), spans(work))
    busy = total(intersect(alone, row.window))  # kernels side by side leave the device empty once
    scale = busy / row.steps / sums["time"] if sums["time"] else 0.0
    return sums["empty"] * scale, sums["time"] * scale, sums["weighted"] / sums["known"] if sums["known"] else None


def _small(run: Run, row: DeviceIdle) -> pl.DataFrame:
    """Kernels with fewer blocks than their device has multiprocessors, but no matrix product that nearly fills it."""
    kernels = fp32_matmul_kernels(run).filter(_own(row) & (pl.col("blocks_per_sm") < 1))
    kernels = kernels.filter(~name_test(kernels["name"], multiplies_fp32))
    multiplies = name_test(kernels["name"], lambda name: _MATMUL.search(name) is not None)
    return kernels.filter(~(multiplies & (pl.col("blocks_per_sm") >= FILLS)))


def _own(row: DeviceIdle) -> pl.Expr:
    return (pl.col("rank") == row.rank) & pl.col("device").eq_missing(row.device)


def example(synth: Synth, fixed: bool) -> None:
    length = 65 if fixed else 100
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.kernel(start, start + 50, blocks_per_sm=8.0, occupancy=0.6)
        for number in range(10):
            begin, end = (start + 50 + (length - 50) / 10 * edge for edge in (number, number + 1))
            synth.kernel(begin, end, "small", blocks_per_sm=2.0 if fixed else 0.25, occupancy=0.1)


RULE = Rule(check=check, example=example)
