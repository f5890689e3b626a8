"""The host stops to wait for the device, and the device runs dry.

## What it finds
Calls that block the host until the device is done: `loss.item()`, `.cpu()`, `print` of a tensor, `synchronize()`. The
device then has nothing to do, for more than 5 % of the step.

## Why it costs time
The host normally runs ahead, so that the device always has launches waiting. A blocking call empties that queue; until
the host has launched again, the device idles. It is this gap that costs time, not the length of the call: while the
host waits, the device works.

## What to do
Keep values on the device and read them every hundredth step: `total += loss.detach()`. Replace branches on values by
`torch.where`. Use events to time. Copy with `non_blocking=True`.

## How the gain is predicted
High end: the idle time of the device that begins within such a call or right after it, up to the next kernel. Low end:
half of it, since a host that launches slowly leaves gaps anyway.

## When it is wrong
If the host launches more slowly than the device computes, the gap stays when the call goes. Calls that the profiler
itself makes at the ends of its window are left out as far as they can be told apart.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl

from stepscope.analyses.bound.lib.device_shares import DeviceIdle, device_idle
from stepscope.analyses.host.blocking_syncs import blocking_syncs
from stepscope.analyses.lib.line_places import STEP, line_place
from stepscope.analyses.lib.runtime_calls import places_of
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.analyses.steps.lib.samples import steady_samples
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Rule, Title, Value
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: a smaller gain drowns in the noise between two runs
PLACES = 3
MIN_SAMPLES = 5  # fewer samples name no line
READS = r"\.(item|tolist|cpu|numpy|nonzero|synchronize)\("  # what waits for the device in Python


def check(run: Run) -> Iterator[Finding]:
    need_gpu(run)
    slow = [row for row in device_idle(run) if row.sync > MIN_SHARE * row.step]
    if not slow:
        return
    worst = max(slow, key=lambda row: row.sync / row.step)
    calls = blocking_syncs(run).filter((pl.col("rank") == worst.rank) & (pl.col("bubble") > 0))
    calls = calls.sort("bubble", descending=True)
    where = places_of(calls, PLACES) or _sampled(run, worst.rank)
    yield Finding(
        title=_title(calls, where, worst),
        cause="scheduling",
        evidence=_evidence(worst, calls),
        gain=Gain(
            low_ns=int(worst.sync / 2),
            high_ns=int(worst.sync),
            step_ns=int(worst.step),
            basis="GPU idle time after blocking calls",
            confidence="structural",
        ),
        advice=_ADVICE,
        ranks=tuple(row.rank for row in slow),
        where=where,
    )


def _title(calls: pl.DataFrame, where: tuple[Place, ...], row: DeviceIdle) -> Title:
    """The costliest call, and the time in which it blocks the host while the GPU idles: its bubble."""
    none: dict[str, Any] = {"bubble": 0, "call": "A blocking call", "operator": None}
    first = calls.row(0, named=True) if calls.height else none
    traced = bool(first.get("file"))
    share = calls["bubble"][0] / float(calls["bubble"].sum()) if calls.height and (traced or not where) else 1.0
    idle = Value(row.sync * share, "ns")
    text = where[0].text.strip() if where else ""
    call = f"`{text}`" if text else str(first["operator"] or first["call"]) if traced or not where else ""
    if not where:
        return Title("{} blocks the host {} per step while the GPU idles", (call, idle))
    if not call:
        return Title("{} blocks the host {} per step while the GPU idles", (where[0], idle))
    return Title("{} at {} blocks the host {} per step while the GPU idles", (call, where[0], idle))


def _evidence(row: DeviceIdle, calls: pl.DataFrame) -> tuple[Evidence, ...]:
    blocked = float(calls["total"].sum()) / row.steps
    count = float(calls["calls"].sum()) / row.steps
    return (
        Evidence(
            label="GPU idle after calls",
            value=row.sync,
            unit="ns",
            source="blocking_syncs",
            share=row.sync / row.step,
        ),
        Evidence(label="time in blocking calls", value=blocked, unit="ns", source="blocking_syncs"),
        Evidence(label="blocking calls per step", value=count, unit="count", source="blocking_syncs"),
    )


def _sampled(run: Run, rank: int) -> tuple[Place, ...]:
    """Lines that read a value back and that samples meet most often: the host sits there."""
    return tuple(place for of_rank, place in run.per_rank(_reads, chain, only=rank) if of_rank == rank)[:PLACES]


def _reads(run: Run) -> tuple[tuple[int, Place], ...]:
    """For each rank, the lines that read a value back in some samples, by their time."""
    try:
        samples = steady_samples(run)
    except MissingData:
        return ()
    whole = dict(samples.group_by("rank").agg(pl.col("weight").sum()).iter_rows())
    reads = pl.coalesce("expression", "text").str.contains(READS)
    own = samples.filter(pl.col("phase").ne("data_wait") & reads & pl.col("file").is_not_null())
    key = ["rank", "file", "line", "function"]
    lines = own.group_by(key).agg(pl.col("weight").sum(), pl.len(), pl.col("text").first())
    rows = lines.filter(pl.col("len") >= MIN_SAMPLES).sort(["rank", "weight", "line"], descending=[False, True, False])
    return tuple(
        (row["rank"], line_place(row, row["weight"] / whole[row["rank"]], STEP)) for row in rows.iter_rows(named=True)
    )


_ADVICE = (
    Advice(
        text="Sum on the device, and read the sum every 100th step",
        code="total += loss.detach()\nif step % 100 == 0:\n    print(total.item() / 100)\n    total.zero_()",
    ),
    Advice(text="Copy with non_blocking=True", code='values = tensor.to("cpu", non_blocking=True)'),
)


def example(synth: Synth, fixed: bool) -> None:
    length = 80 if fixed else 100
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.host("cudaLaunchKernel", "runtime", start, start + 1, correlation=2 * step + 1)
        synth.kernel(start, start + 78, correlation=2 * step + 1)
        if not fixed:
            synth.host("aten::item", "operator", start + 5, start + 79)
            synth.host("cudaStreamSynchronize", "runtime", start + 6, start + 78.5)
        synth.host("cudaLaunchKernel", "runtime", start + length - 2, start + length - 1, correlation=2 * step + 2)
        synth.kernel(start + length - 1, start + length, correlation=2 * step + 2)


RULE = Rule(check=check, example=example)
