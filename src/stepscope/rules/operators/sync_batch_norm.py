"""Batch normalization waits for the other ranks in each of its layers.

## What it finds
Devices that are busy for 80 % of the step or more, communication included. Collectives inside `SyncBatchNorm` take more
than 5 % of it while nothing computes (catalogue: D21).

## Why it costs time
Each such layer gathers its statistics from all ranks, once in forward and once in backward. The tensors are tiny, so
each call costs its latency, and the next layer cannot begin before.

## What to do
Use plain `BatchNorm`, if each rank has 16 samples or more: its statistics are then good enough. Or normalize without a
batch: `GroupNorm`, `LayerNorm`. Or synchronize within a small group of ranks.

## How the gain is predicted
High end: the time of these collectives while nothing computes. Low end: half of it, as the ranks then wait for one
another elsewhere.

## When it is wrong
With very few samples per rank, as in detection and segmentation, the statistics of one rank are too noisy.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.lib.device_work import device_work
from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.chosen_work import work_findings
from stepscope.rules.operators.lib.launchers import launched_inside

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: half of it, the low end of the gain, is above the noise between two runs
SAVED = (0.5, 1.0)  # of the collectives' time
_LAYERS = pl.col("name").str.contains("SyncBatchNorm")


def check(run: Run) -> Iterator[Finding]:
    yield from work_findings(
        run,
        _chosen,
        MIN_SHARE,
        "SyncBatchNorm waits for other ranks {} per step ({})",
        labels=("statistics exchanged per step", "exchanges per step"),
        part=SAVED,
        basis="exposed collectives inside SyncBatchNorm",
        advice=_ADVICE,
        cause="configuration",
    )


def _chosen(run: Run) -> pl.Series:
    return launched_inside(run, _LAYERS) & (device_work(run)["role"] == "communication")


_ADVICE = (
    Advice(text="With 16 samples or more per rank, leave out the call of `convert_sync_batchnorm`"),
    Advice(
        text="Or exchange statistics within each host only",
        code="model = nn.SyncBatchNorm.convert_sync_batchnorm(model, process_group=host_group)",
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    wait = 0 if fixed else 10
    length = 90 + wait
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.kernel(start, start + 90, "gemm", blocks_per_sm=4.0)
        if wait:
            synth.host("SyncBatchNorm", "operator", start + 80, start + 89)
            synth.host("cudaLaunchKernel", "runtime", start + 81, start + 82, correlation=step + 1)
            name = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
            synth.kernel(start + 90, start + length, name, correlation=step + 1)


RULE = Rule(check=check, example=example)
