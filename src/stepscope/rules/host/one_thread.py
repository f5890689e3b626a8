"""Operators on the CPU compute with fewer threads than there are free cores.

## What it finds
CPU jobs that computing limits. Their operators have fewer threads than the job has cores, and half of the cores that
this leaves out were idle. Operators of 100 µs and more, which several threads could share, take a quarter of the step.

## Why it costs time
Torch divides convolutions, matrix products and large element-wise operators among its threads. With one thread, one
core works. `torchrun` sets `OMP_NUM_THREADS=1` for each rank, and many examples call `torch.set_num_threads(1)`.

## What to do
One thread for each core that the job has, divided by its ranks on the machine.

## How the gain is predicted
The time of these operators times the part of the cores that is left out: all of it at best, half of it at least, since
memory and the ends of operators are shared. Measured with large matrix products on 2 cores: 0.95 of it.

## When it is wrong
Two hyper-threads of a core compute little more than one. Small operators gain nothing from threads; they are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound.bound import bound
from stepscope.analyses.bound.lib.thresholds import UTILIZED
from stepscope.analyses.host.core_waits import core_waits
from stepscope.analyses.host.lib.model_places import model_places
from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.core.finding import Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.plural import plural
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.thread_settings import (
    SETS_THREADS,
    long_operators,
    operator_threads,
    thread_advice,
    thread_example,
)

__all__ = ["RULE"]

MIN_SHARE = 0.25  # of the step in such operators: half of half of it, on two cores, is 6 %
IDLE = 0.5  # of the cores without a thread of the job's: others may need the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class _FewThreads:
    rank: int
    threads: int
    free: float  # cores for each rank
    job: float
    cores: float
    long: float  # ns per step in operators that threads could share
    step: float


def check(run: Run) -> Iterator[Finding]:
    if has_gpu(run):
        return
    found = [row for row in _few_threads(run) if row.long >= MIN_SHARE * row.step]
    if not found:
        return
    worst = max(found, key=lambda row: row.long / row.step)
    saved = worst.long * (1 - worst.threads / worst.free)
    yield Finding(
        title=Title(
            f"Operators use {{}} {plural(worst.threads, 'thread')}; this job has {{}} {plural(worst.cores, 'core')}",
            (Value(worst.threads, "count"), Value(worst.cores, "count")),
        ),
        cause="configuration",
        evidence=(
            Evidence(
                label="operators above 100 µs", value=worst.long, unit="ns", source="operators",
                share=worst.long / worst.step,
            ),
            Evidence(label="operator threads", value=worst.threads, unit="count", source="processes"),
            Evidence(label="cores this job uses", value=worst.job, unit="count", source="core_waits", of=worst.cores),
        ),
        gain=Gain(
            low_ns=int(saved / 2),
            high_ns=int(saved),
            step_ns=int(worst.step),
            basis="long operators on all cores: half as well at least",
            confidence="structural",
        ),
        advice=thread_advice(max(1, int(worst.free))),
        ranks=tuple(row.rank for row in found),
        where=setting_places(run, SETS_THREADS, worst.rank) or model_places(run, worst.rank),
    )  # fmt: skip


def _few_threads(run: Run) -> Iterator[_FewThreads]:
    limited = bound(run).filter((pl.col("limit") == "device") & (pl.col("device") >= UTILIZED)).select("rank")
    rows = core_waits(run).join(operator_threads(run), on="rank").join(limited, on="rank", how="semi")
    for row in rows.sort("rank").iter_rows(named=True):
        free = row["cores"] / row["ranks"]
        idle = row["cores"] - row["job"] - row["others"]
        if row["threads"] < free and idle >= IDLE * (row["cores"] - row["threads"] * row["ranks"]):
            yield _FewThreads(
                rank=row["rank"], threads=row["threads"], free=free, job=row["job"], cores=row["cores"],
                long=long_operators(run, row["rank"]) * row["step"], step=row["step"],
            )  # fmt: skip


def example(synth: Synth, fixed: bool) -> None:
    threads, computing = (2, 55) if fixed else (1, 95)
    thread_example(synth, threads=threads, computing=computing)


RULE = Rule(check=check, example=example)
