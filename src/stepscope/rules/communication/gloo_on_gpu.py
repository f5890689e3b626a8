"""Tensors of GPUs are exchanged by gloo, through the memory of the hosts.

## What it finds
Ranks with device work whose backend is gloo alone, and whose collectives take more than 5 % of the step while the
device idles (catalogue: F11).

## Why it costs time
gloo computes on the CPU: each tensor is copied to the host, summed there by few threads, and copied back. NCCL sends
from device to device over NVLink or the network card, and overlaps with kernels.

## What to do
Initialize with `backend="nccl"` (`"rccl"` is called `"nccl"`, too). Keep gloo only for objects and barriers on the CPU:
`"cpu:gloo,cuda:nccl"`.

## How the gain is predicted
High end: the time of these collectives while the device idles. Low end: half of it, as NCCL takes time too.

## When it is wrong
Some machines have no NCCL: Windows, macOS.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound.lib.device_shares import DeviceIdle, device_idle
from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.intervals import intersect, spans, subtract, total, union
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: half of it, the low end of the gain, is above the noise between two runs
_CALL = "gloo:"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exchanges:
    exposed: float  # ns per step
    count: float  # per step
    device: DeviceIdle


def check(run: Run) -> Iterator[Finding]:
    need_gpu(run)
    found = [one for one in run.per_rank(_exchanges, chain) if one.exposed > MIN_SHARE * one.device.step]
    if not found:
        return
    worst = max(found, key=lambda one: one.exposed / one.device.step)
    share = worst.exposed / worst.device.step
    yield Finding(
        title=Title("gloo exchanges GPU tensors {} per step ({})", (Value(worst.exposed, "ns"), Value(share, "ratio"))),
        cause="configuration",
        evidence=(
            Evidence(
                label="exchanges while GPU idles", value=worst.exposed, unit="ns", source="collectives", share=share
            ),
            Evidence(label="exchanges per step", value=worst.count, unit="count", source="collectives"),
        ),
        gain=Gain(
            low_ns=int(worst.exposed / 2),
            high_ns=int(worst.exposed),
            step_ns=int(worst.device.step),
            basis="gloo's collectives while the device idles",
            confidence="structural",
            pool="communication",
        ),
        advice=(
            Advice(
                text="Let NCCL exchange the tensors of GPUs",
                code='torch.distributed.init_process_group("cpu:gloo,cuda:nccl")',
            ),
        ),
        ranks=tuple(sorted(one.device.rank for one in found)),
        where=setting_places(run, r"init_process_group\(", worst.device.rank),
    )


def _exchanges(run: Run) -> tuple[_Exchanges, ...]:
    gloo = run.optional("processes", "rank", "backend").filter(pl.col("backend") == "gloo")["rank"].to_list()
    calls = run.optional("host", "rank", "name", "start", "end").filter(pl.col("name").str.starts_with(_CALL))
    rows = []
    for row in device_idle(run) if gloo and not calls.is_empty() else ():
        if row.rank not in gloo:
            continue
        own = calls.filter(pl.col("rank") == row.rank)
        work = device_work(run).filter((pl.col("rank") == row.rank) & pl.col("device").eq_missing(row.device))
        exposed = subtract(intersect(union(spans(own)), row.window), spans(work))
        count = row.per_step(own["start"].to_numpy())
        rows.append(_Exchanges(exposed=total(exposed) / row.steps, count=count, device=row))
    return tuple(rows)


def example(synth: Synth, fixed: bool) -> None:
    exchange = 0 if fixed else 20
    length = 80 + exchange
    synth.add("processes", rank=0, pid="1", backend="nccl" if fixed else "gloo", world_size=2)
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.kernel(start, start + 80)
        if exchange:
            synth.host("gloo:all_reduce", "annotation", start + 80, start + length, thread="2")


RULE = Rule(check=check, example=example)
