"""The job's memory on the host grows while it trains.

## What it finds
Memory of the job (all its processes) that rose in most seconds of steady training, by more than a tenth and by more
than 64 MiB in all, and no slower at the end. Where no line of the job is seen to keep tensors: in half a minute or
more.

## Why it costs time
It costs none until memory is full. Then the machine swaps, or the kernel kills the job. Kept graphs also make backward
longer with every step.

## What to do
Keep numbers, not tensors: `total += loss.item()`. A sum or a list of losses holds the graph of every step. Loader
workers that read Python lists copy their pages; keep samples in arrays.

## How the gain is predicted
No time is promised: the finding is about whether the job can go on.

## When it is wrong
Caches that fill during the first minutes grow as well, and then stay. Record a longer run.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl

from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MIN_SAMPLES = 5  # seconds: a line through fewer follows a single cache
MIN_GROWTH = 0.10  # of the memory at first
MIN_BYTES = 64 << 20  # in all: allocators and caches of libraries take some megabytes at any time
MOSTLY = 0.75  # of the seconds in which it must have risen
LASTING = 0.5  # of the mean growth, in the last third: what fills up grows ever less
MIN_SECONDS = 30.0  # without a line that keeps something: caches and allocators grow for some seconds in any job
_KEEPS = r"^\s*(\w+) = \1 \+ |\+= *\w*loss\b(?!\.)|append\((?!.*(item|detach|float)\().*(loss|output|pred)"


def check(run: Run) -> Iterator[Finding]:
    steps = enough_steps(run)
    start, end = steps.select(pl.col("start").min(), pl.col("end").max()).row(0)
    memory = run.optional("system").filter((pl.col("what") == "job memory") & pl.col("time").is_between(start, end))
    if len(memory) < MIN_SAMPLES:
        raise MissingData("five seconds of steady training", how="run it longer with `stepscope run -- COMMAND`")
    values = memory.sort("time")["value"].to_numpy()
    grown, first = float(values[-1] - values[0]), float(values[0])
    rises = float((np.diff(values) > 0).mean())
    late = float(values[-1] - values[-1 - len(values) // 3]) / (len(values) // 3)
    if grown < max(MIN_BYTES, MIN_GROWTH * first) or rises < MOSTLY or late < LASTING * grown / (len(values) - 1):
        return
    where = setting_places(run, _KEEPS)
    seconds = float(np.ptp(memory["time"].to_numpy())) / 1e9
    if not where and seconds < MIN_SECONDS:
        return
    count = steps.filter(pl.col("rank") == steps["rank"].min()).height
    yield Finding(
        title=Title("Host memory grows by {} in {} steps", (Value(int(grown), "bytes"), Value(count, "count"))),
        cause="model",
        evidence=(
            Evidence(label="growth", value=int(grown), unit="bytes", source="system"),
            Evidence(label="memory at first", value=int(first), unit="bytes", source="system"),
            Evidence(label="growth per second", value=int(grown / max(seconds, 1.0)), unit="bytes", source="system"),
        ),
        gain=None,
        advice=(
            Advice(
                text="Keep numbers, not tensors: a kept loss holds the graph of its step",
                code="total += loss.item()  # or: losses.append(loss.detach())",
            ),
            Advice(text="Clear lists of outputs after each epoch"),
        ),
        ranks=tuple(steps["rank"].unique().sort()),
        where=where,
    )


def example(synth: Synth, fixed: bool) -> None:
    for step in range(100):
        synth.step(step, 400 * step, 400 * step + 400, forward=160, backward=200, optimizer=40)
    for second in range(1, 40):
        grown = 0 if fixed else second * (30 << 20)
        synth.add(
            "system", time=second * 1_000_000_000, rank=None, what="job memory", unit="bytes", value=(1 << 29) + grown
        )


RULE = Rule(check=check, example=example)
