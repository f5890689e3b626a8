"""Each step keeps some memory, until there is none left.

## What it finds
Allocated memory that grows from step to step by more than a thousandth of its peak and more than 1 MiB, in five traced
steps or more. It names the lines whose blocks nearly every step leaves behind, and says after how many steps the device
is full at this pace.

## Why it costs time
It costs none until the allocator finds no room. Then it empties its cache in every step, which waits for the device. At
last the job ends with out of memory.

## What to do
Keep numbers, not tensors: a loss in a list holds the graph of its whole step. Add hooks once. Clear lists of outputs
after each epoch, or move what must be kept to the host.

## How the gain is predicted
No time is promised: the finding is about whether the job can go on.

## When it is wrong
Caches that fill up during the first steps and then stay, and sequences that become longer, grow as well. Record later
or more steps.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl

from stepscope.analyses.lib.runtime_calls import places_of
from stepscope.analyses.memory.memory_kept import memory_kept
from stepscope.analyses.memory.memory_peaks import memory_peaks
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Place, Rule, Title, Value, at
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MIN_STEPS = 5  # the median of slopes over fewer follows a single odd step
MIN_SHARE = 0.001  # of the peak per step: a slower growth is not told from lengths that vary
MIN_BYTES = 1 << 20  # per step: less does not fill a device within a hundred thousand steps
NEARLY_ALL = 0.8  # of the steps: a line that keeps memory more rarely is not what grows
PLACES = 3


_PEAK = pl.coalesce("allocated", "rise")  # traces from before torch 1.10 have no totals


def check(run: Run) -> Iterator[Finding]:
    pace = pl.max_horizontal(MIN_SHARE * _PEAK, pl.lit(MIN_BYTES))
    rows = memory_peaks(run).filter((pl.col("steps") >= MIN_STEPS) & (pl.col("growth") > pace))
    if rows.is_empty():
        return
    worst = rows.sort(pl.col("growth") / _PEAK, descending=True, maintain_order=True).row(0, named=True)
    where = _places(run, worst)
    yield Finding(
        title=_title(worst, where),
        cause="model",
        evidence=tuple(_evidence(worst)),
        gain=None,
        advice=_advice(where),
        ranks=tuple(sorted(set(rows["rank"].to_list()))),
        where=where,
    )


def _title(row: dict[str, Any], where: tuple[Place, ...]) -> Title:
    growth = Value(row["growth"], "bytes")
    return (
        Title("Memory grows {} per step at {}", (growth, where[0]))
        if where
        else Title("Memory grows {} per step", (growth,))
    )


def _evidence(row: dict[str, Any]) -> Iterator[Evidence]:
    source = "memory_peaks"
    yield Evidence(label="median growth per step", value=row["growth"], unit="bytes", source=source)
    if row["capacity"] and row["allocated"] is not None:
        left = max(0, row["capacity"] - row["allocated"]) / row["growth"]
        yield Evidence(label="steps until memory full", value=int(left), unit="count", source=source)
    if row["allocated"] is None:
        yield Evidence(label="growth since start", value=row["rise"], unit="bytes", source=source)
    else:
        yield Evidence(label="peak allocated memory", value=row["allocated"], unit="bytes", source=source)
    yield Evidence(label="traced steps", value=row["steps"], unit="count", source=source)


def _places(run: Run, row: dict[str, float]) -> tuple[Place, ...]:
    """Lines whose blocks nearly every step keeps."""
    try:
        kept = memory_kept(run)
    except MissingData:
        return ()
    same = [pl.col(name).eq_missing(pl.lit(row[name])) for name in ("rank", "device_type", "device")]
    usual = pl.col("steps") >= NEARLY_ALL * pl.col("watched")
    lines = kept.filter(*same, usual).group_by("file", "line", maintain_order=True)
    found = lines.agg(pl.col("function", "text").first(), pl.col("bytes").sum())
    return places_of(found.sort("bytes", descending=True, maintain_order=True), PLACES)


def _advice(where: tuple[Place, ...]) -> tuple[Advice, ...]:
    """Kept graphs first, the usual cause. Without a line, how to record where blocks are allocated."""
    first = Advice(
        text=f"Detach tensors that outlive their step{at(where[0])}" if where else "Detach tensors that outlive a step",
        code="losses.append(loss.detach())  # a kept loss holds the graph of its step",
    )
    if where:
        return (first, Advice(text="Clear lists of outputs after each epoch, or move them to the host"))
    code = "stepscope run --trace 10:20 --with memory,stacks -- COMMAND"
    return (first, Advice(text="Record where the blocks are allocated", code=code, language="shell"))


def example(synth: Synth, fixed: bool) -> None:
    synth.add("devices", device=0, name="a GPU", memory=8 << 30)
    level = 1 << 30
    for step in range(8):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        synth.kernel(start, start + 100)
        for time, change in ((10, 64 << 20), (90, (0 if fixed else 16 << 20) - (64 << 20))):
            level += change
            synth.add(
                "memory", thread="1", time=(start + time) * 1_000_000, device_type=1, device=0, bytes=change,
                total_allocated=level, total_reserved=2 << 30,
            )  # fmt: skip


RULE = Rule(check=check, example=example)
