"""Many small values are copied to the device one by one.

## What it finds
Twenty or more copies per step from the host to the device of less than 4 KiB each (catalogue: B04). The operators that
make them take more than 3 % of the step while the device idles.

## Why it costs time
A copy of one number costs the host some 10 to 20 µs, as much as one of 100 KB. From pageable memory the host also waits
until it has arrived.

## What to do
Pack the values into one tensor and copy it once, then take views of it on the device. Make constants once, before the
loop, and tensors of known content on the device.

## How the gain is predicted
High end: the time in these operators while the device idles. Low end: half of it, as one copy is left and the host may
be late for another reason.

## When it is wrong
Optimizers with `capturable=True` copy their settings on purpose.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

from stepscope.analyses.bound.lib.device_shares import device_idle
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.launch_lines import launch_lines, launch_places
from stepscope.core.finding import Advice, Evidence, Finding, Rule, Title, Value
from stepscope.core.run import Run, stack
from stepscope.core.synth import Synth
from stepscope.models.idle_meanwhile import IdleMeanwhile, Said, idle_findings, idle_meanwhile, of_device

__all__ = ["RULE"]

MIN_SHARE = 0.03  # of the step: it is measured, not guessed
MIN_COPIES = 20  # per step: fewer are inputs of the step
SMALL = 4096  # bytes: their copy takes as long as that of one
_SMALL = (pl.col("name").str.contains(r"(?i)HtoD|HostToDevice") & (pl.col("bytes") < SMALL)).fill_null(False)


def check(run: Run) -> Iterator[Finding]:
    yield from idle_findings(
        run,
        _copies,
        MIN_SHARE,
        partial(_said, run),
        basis="small copies while the device idles",
        pool="host",
        advice=_ADVICE,
        cause="operator",
    )


def _said(run: Run, worst: IdleMeanwhile) -> Said:
    return Said(
        title=Title(
            "{} small copies to the device per step cost {} ({})", (Value(round(worst.count), "count"), *worst.takes)
        ),
        evidence=(
            Evidence(label="small copies per step", value=round(worst.count), unit="count", source="copies"),
            Evidence(label="size of one", value=worst.size, unit="bytes", source="copies"),
            worst.evidence("device idle meanwhile", "idle_gaps"),
        ),
        where=launch_places(run.per_rank(_lines, stack, only=worst.device.rank), worst.device.rank, worst.share),
    )


def _chosen(run: Run) -> pl.Series:
    return device_work(run, "name", "bytes").select(_SMALL).to_series()


def _lines(run: Run) -> pl.DataFrame:
    return launch_lines(run, _chosen(run))


def _copies(run: Run) -> tuple[IdleMeanwhile, ...]:
    found, chosen = launches(run), _chosen(run)
    if found.tree is None:
        return ()
    around = np.where(found.operator >= 0, found.operator, found.call)
    work = device_work(run, "bytes").with_columns(around=pl.Series(around)).filter(chosen)
    rows = []
    for row in device_idle(run):
        small = work.filter(of_device(row))
        count = row.per_step(small["start"].to_numpy())
        if count < MIN_COPIES:
            continue
        operators = found.tree.frame[small.filter(pl.col("around") >= 0)["around"].unique().sort()]
        size = float(small["bytes"].mean())  # type: ignore[arg-type]
        rows.append(idle_meanwhile(run, row, operators, count, size=size))
    return tuple(rows)


_ADVICE = (
    Advice(
        text="Pack the values into one tensor, and copy it once",
        code="values = torch.tensor([a, b, c]).to(device, non_blocking=True)\na, b, c = values.unbind()",
    ),
    Advice(
        text="Make constants on the device, once", code="scale = torch.full((), 0.5, device=device)  # before the loop"
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    copies = 1 if fixed else 40
    length = 80 + copies * 0.5
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        for number in range(copies):
            begin, correlation = start + 0.5 * number, step * 100 + number + 1
            synth.host("aten::to", "operator", begin, begin + 0.5)
            synth.host("cudaMemcpyAsync", "runtime", begin + 0.1, begin + 0.4, correlation=correlation)
            name = "Memcpy HtoD (Pageable -> Device)"
            synth.kernel(begin + 0.3, begin + 0.302, name, kind="memcpy", bytes=8, correlation=correlation)
        synth.kernel(start + copies * 0.5, start + length)


RULE = Rule(check=check, example=example)
