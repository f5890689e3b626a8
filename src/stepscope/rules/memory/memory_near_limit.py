"""The GPU memory is nearly full.

## What it finds
A peak of more than 90 % of the device's memory, of what tensors hold or of what the allocator holds while it cannot use
a third of it. The latter is fragmentation: holes between blocks that no request fits.

## Why it costs time
It costs none by itself. If a request finds no room, the allocator empties its cache, which waits for the device, and
tries again. One longer sequence then ends the job with out of memory. And a larger batch, which would use the device
better, has no room.

## What to do
If tensors hold it: compute in bfloat16, recompute activations of the largest layers in backward, shard the optimizer's
state, or use a smaller batch. If fragmentation holds it: let segments grow, and make sizes equal from step to step.

## How the gain is predicted
No time is promised: the finding is about whether the job can go on, and what holds larger batches back.

## When it is wrong
Servers of language models take nearly all memory for their caches, by design. Where nothing trains, tensors that fill
the device are no finding unless a request failed. Memory of other processes on the device is
not seen: the device may be fuller than this says.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.lib.training_or_inference import inferring_ranks
from stepscope.analyses.memory.memory_peaks import memory_peaks
from stepscope.core.finding import Advice, Evidence, Finding, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.schema import Unit
from stepscope.core.synth import Synth

__all__ = ["RULE"]

FULL = 0.9  # of the device: the TensorBoard plugin's threshold; what is left is less than one step's variation
FRAGMENTED = 0.3  # of what the allocator holds: steady training leaves it a tenth to a fifth


def check(run: Run) -> Iterator[Finding]:
    by_tensors = pl.col("share") > FULL
    fragmented = (pl.col("reserved_share") > FULL) & (pl.col("unused") > FRAGMENTED * pl.col("reserved"))
    by_design = pl.col("rank").is_in(inferring_ranks(run)) & ~(pl.col("out_of_memory").fill_null(0) > 0)
    rows = memory_peaks(run).with_columns(by_tensors=by_tensors & ~by_design, fragmented=fragmented & ~by_tensors)
    for column, advice in (("by_tensors", _FULL), ("fragmented", _FRAGMENTED)):
        found = rows.filter(column).sort("reserved_share", "share", descending=True, nulls_last=True)
        if found.is_empty():
            continue
        yield Finding(
            title=_title(column, found.row(0, named=True)),
            cause="configuration",
            evidence=tuple(_evidence(column, found.row(0, named=True))),
            gain=None,
            advice=_SMALLER if column == "by_tensors" and set(found["rank"]) <= set(inferring_ranks(run)) else advice,
            ranks=tuple(sorted(set(found["rank"].to_list()))),
        )


def _title(column: str, row: dict[str, float]) -> Title:
    capacity = Value(row["capacity"], "bytes")
    if column == "by_tensors":
        return Title("GPU memory peaks at {} of {}", (Value(row["share"], "ratio"), capacity))
    fragmented = Value(row["unused"] / row["reserved"], "ratio")
    words = "The allocator reserves {} of {}, and {} of that is fragmented"
    return Title(words, (Value(row["reserved_share"], "ratio"), capacity, fragmented))


def _evidence(column: str, row: dict[str, float]) -> Iterator[Evidence]:
    labels = {
        "allocated": "peak allocated memory",
        "capacity": "GPU memory",
        "out_of_memory": "out-of-memory events",
        "reserved": "peak reserved memory",
        "unused": "fragmented memory at peak",
    }
    order = tuple(labels) if column == "by_tensors" else ("reserved", "unused", "capacity", "allocated")
    for name in order:
        if row[name] is not None:
            unit: Unit = "count" if name == "out_of_memory" else "bytes"
            yield Evidence(label=labels[name], value=row[name], unit=unit, source="memory_peaks")


_LOOK = Advice(text="See what holds it", code="stepscope show memory-at-peak RUN", language="shell")
_SMALLER = (_LOOK, Advice(text="Compute in bfloat16, use a smaller batch, or shrink the cache"))
_FULL = (
    _LOOK,
    Advice(
        text="Recompute the activations of large blocks in backward",
        code="torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
    ),
    Advice(text="Compute in bfloat16, shard the optimizer's state, or use a smaller batch"),
)
_FRAGMENTED = (
    Advice(
        text="Let the allocator grow its segments",
        code="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
        language="shell",
    ),
    Advice(text="Make sizes equal from step to step: pad, or sort by length into buckets"),
)


def example(synth: Synth, fixed: bool) -> None:
    synth.add("devices", device=0, name="a GPU", memory=8 << 30)
    peak = (4 << 30) if fixed else (15 << 29)
    for step in range(4):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        synth.kernel(start, start + 100)
        for time, change in ((10, peak), (90, -peak)):
            synth.add(
                "memory", thread="1", time=(start + time) * 1_000_000, device_type=1, device=0, bytes=change,
                total_allocated=max(change, 0), total_reserved=peak,
            )  # fmt: skip


RULE = Rule(check=check, example=example)
