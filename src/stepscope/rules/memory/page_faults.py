"""The job takes memory from the system and gives it back in every step.

## What it finds
CPU jobs for which the kernel computes 6 % of the step or more, on one core, because pages are touched for the first
time: a page fault costs some 2 µs.

## Why it costs time
The C library gives freed blocks at the end of its heap back to the system, and maps large ones anew each time. The next
step asks for them again. Each page of 4 KiB is then cleared by the kernel and entered into the tables when it is
touched. Tensors of some megabytes make thousands of them per step.

## What to do
Have the C library keep what is freed: `MALLOC_TOP_PAD_` is a variable of glibc, in bytes. Or preload jemalloc or
tcmalloc, which keep it themselves. On a machine with little memory choose less.

## How the gain is predicted
The CPU time of the kernel, but not more than 2.5 µs for each fault: 0.55 to 1.1 times of it, because threads clear
pages side by side. Measured with torch on two cores: 0.56 to 1.08 times, in seven scripts that became 7 to 52 %
shorter.

## When it is wrong
A job whose memory grows by half of these pages or more is left out: it keeps them. Memory that goes up and down by
itself is not told from that of steps. The variable has no effect where another allocator is in use, on macOS and with
musl.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.lib.sample_work import gpu_ranks
from stepscope.analyses.memory.page_faults import page_faults
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth

__all__ = ["RULE"]

MIN_SHARE = 0.06  # of the step: half of it, the low end of the gain, is near the noise between two runs
LONGEST = 2_500  # ns of a fault: 1.1 to 2.1 were measured; more is the kernel's other work
SAVED = (0.55, 1.1)  # of the kernel's time: threads fault side by side, and their caches are cleared, too
GROWS = 0.5  # of the faults: the job keeps what it takes
PAGE, SECOND = 4096, 1e9  # bytes, ns
LEAST = 1 << 30  # bytes to keep: less than a job with torch uses


def check(run: Run) -> Iterator[Finding]:
    rows, grown = page_faults(run).filter(~pl.col("rank").is_in(gpu_ranks(run))), _growth(run) / PAGE / SECOND
    found = [
        (min(row["kernel"], LONGEST * row["faults"]), row)
        for row in rows.iter_rows(named=True)
        if grown * row["step"] < GROWS * row["faults"]
    ]
    slow = [(time, row) for time, row in found if time >= MIN_SHARE * row["step"]]
    if not slow:
        return
    time, worst = max(slow, key=lambda one: one[0] / one[1]["step"])
    low, high = (int(min(part * time, worst["step"])) for part in SAVED)
    yield Finding(
        title=Title(
            "Memory is taken from the system and given back: {} page faults per step",
            (Value(round(worst["faults"]), "count"),),
        ),
        cause="configuration",
        evidence=(
            Evidence(label="page faults per step", value=round(worst["faults"]), unit="count", source="page_faults"),
            Evidence(
                label="CPU time in kernel", value=worst["kernel"], unit="ns", source="page_faults",
                share=worst["kernel"] / worst["step"],
            ),
        ),
        gain=Gain(
            low_ns=low,
            high_ns=high,
            step_ns=worst["step"],
            basis="CPU time of the kernel for page faults",
            confidence="structural",
            pool="host",
        ),
        advice=(
            Advice(
                text="Keep freed memory in the process: set this before the job starts",
                code=f"export MALLOC_TOP_PAD_={_to_keep(run)}",
                language="shell",
            ),
        ),
        ranks=tuple(row["rank"] for _, row in slow),
    )  # fmt: skip


def _growth(run: Run) -> float:
    """Bytes a second by which the memory of the whole job grows from its first steady step to its peak."""
    begin = enough_steps(run)["start"].min()
    memory = (pl.col("what") == "job memory") & (pl.col("time") >= begin)
    used = run.optional("system").filter(memory).sort("time").select("time", "value").rows()
    peak = max(used, key=lambda sample: sample[1], default=None)  # the last may be of a job that has ended
    if peak is None or peak[0] == used[0][0]:
        return 0.0
    return float((peak[1] - used[0][1]) / (peak[0] - used[0][0]) * SECOND)


def _to_keep(run: Run) -> int:
    """Bytes: the next power of two above what the whole job uses."""
    used = run.optional("system").filter(pl.col("what") == "job memory")["value"].max()
    keep = LEAST
    while isinstance(used, float) and keep < used:
        keep *= 2
    return keep


def example(synth: Synth, fixed: bool) -> None:
    faulting = 0 if fixed else 20
    length = 80 + faulting
    for step in range(20):
        start = step * length
        synth.step(step, start, start + length, forward=40 + faulting, backward=35, optimizer=5)
        time = int((start + length / 2) * MS)
        for what, value, unit in (
            ("page faults", 120_000 if faulting else 500, "per second"),
            ("kernel CPU", 0.3 if faulting else 0.01, "cores"),
        ):
            synth.add("system", time=time, what=what, value=value, unit=unit)


RULE = Rule(check=check, example=example)
