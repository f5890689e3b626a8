"""The host stops to wait for the device, and the device runs dry.

## What it finds
Calls that block the host until the device is done (`loss.item()`, `.cpu()`, `print` of a tensor, `synchronize()`) and
after which the device has nothing to do, for more than 5 % of the step.

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

import polars as pl

from stepscope.analyses._device_idle import DeviceIdle, device_idle
from stepscope.analyses._placed_calls import places_of
from stepscope.analyses._samples import steady_samples
from stepscope.analyses._work import need_gpu
from stepscope.analyses.blocking_syncs import blocking_syncs
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Rule
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
    yield Finding(
        title="The host waits for the device, and the device runs dry",
        cause="scheduling",
        evidence=_evidence(worst, calls),
        gain=Gain(
            low_ns=int(worst.sync / 2),
            high_ns=int(worst.sync),
            step_ns=int(worst.step),
            basis="idle time of the device that begins in a blocking call or right after it",
            confidence="structural",
        ),
        advice=_ADVICE,
        ranks=tuple(row.rank for row in slow),
        where=places_of(calls, PLACES) or _sampled(run, worst.rank),
    )


def _evidence(row: DeviceIdle, calls: pl.DataFrame) -> tuple[Evidence, ...]:
    blocked = float(calls["total"].sum()) / row.steps
    count = float(calls["calls"].sum()) / row.steps
    return (
        Evidence(
            label="mean idle time after blocking calls per step", value=row.sync, unit="ns", source="blocking_syncs"
        ),
        Evidence(label="share of the mean step", value=row.sync / row.step, unit="ratio", source="blocking_syncs"),
        Evidence(label="mean time the host is blocked per step", value=blocked, unit="ns", source="blocking_syncs"),
        Evidence(label="mean blocking calls per step", value=count, unit="count", source="blocking_syncs"),
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
    reads = pl.coalesce("expression", "text").str.contains(READS)
    own = samples.filter(pl.col("phase").ne("data_wait") & reads & pl.col("file").is_not_null())
    key = ["rank", "file", "line", "function"]
    lines = own.group_by(key).agg(pl.col("weight").sum(), pl.len(), pl.col("text").first())
    rows = lines.filter(pl.col("len") >= MIN_SAMPLES).sort(["rank", "weight", "line"], descending=[False, True, False])
    return tuple(
        (rank, Place(file=file, line=line, symbol=function or "", text=(text or "").strip()))
        for rank, file, line, function, _, _, text in rows.iter_rows()
    )


_ADVICE = (
    Advice(
        text="Sum on the device, and read the sum every hundredth step",
        code="total += loss.detach()\nif step % 100 == 0:\n    print(total.item() / 100)\n    total.zero_()",
    ),
    Advice(text="Copy without waiting", code='values = tensor.to("cpu", non_blocking=True)'),
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
