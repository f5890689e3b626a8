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
from functools import partial

import polars as pl

from stepscope.analyses.bound.lib.device_shares import device_idle
from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.core.finding import Advice, Evidence, Finding, Rule, Title
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.idle_meanwhile import IdleMeanwhile, Said, idle_findings, idle_meanwhile

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: half of it, the low end of the gain, is above the noise between two runs
_CALL = "gloo:"


def check(run: Run) -> Iterator[Finding]:
    yield from idle_findings(
        run,
        _exchanges,
        MIN_SHARE,
        partial(_said, run),
        basis="gloo's collectives while the device idles",
        pool="communication",
        advice=_ADVICE,
        cause="configuration",
    )


def _said(run: Run, worst: IdleMeanwhile) -> Said:
    return Said(
        title=Title("gloo exchanges GPU tensors {} per step ({})", worst.takes),
        evidence=(
            worst.evidence("exchanges while GPU idles", "collectives"),
            Evidence(label="exchanges per step", value=worst.count, unit="count", source="collectives"),
        ),
        where=setting_places(run, r"init_process_group\(", worst.device.rank),
    )


def _exchanges(run: Run) -> tuple[IdleMeanwhile, ...]:
    gloo = run.optional("processes", "rank", "backend").filter(pl.col("backend") == "gloo")["rank"].to_list()
    calls = run.optional("host", "rank", "name", "start", "end").filter(pl.col("name").str.starts_with(_CALL))
    rows = []
    for row in device_idle(run) if gloo and not calls.is_empty() else ():
        own = calls.filter(pl.col("rank") == row.rank)
        if row.rank in gloo:
            rows.append(idle_meanwhile(run, row, own, row.per_step(own["start"].to_numpy())))
    return tuple(rows)


_ADVICE = (
    Advice(
        text="Let NCCL exchange the tensors of GPUs",
        code='torch.distributed.init_process_group("cpu:gloo,cuda:nccl")',
    ),
)


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
