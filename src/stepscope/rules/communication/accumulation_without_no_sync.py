"""Gradients are accumulated over several micro-batches, and reduced after each of them.

## What it finds
DistributedDataParallel jobs that run several backward passes per optimizer step and send gradients after more than one
of them. Their exposed time is more than 5 % of the step.

## Why it costs time
Only the sum of the gradients is needed, once per optimizer step. With four micro-batches, three of four reductions are
for nothing.

## What to do
Run all micro-batches but the last inside `model.no_sync()`. Frameworks do so by themselves if they know of the
accumulation: `gradient_accumulation_steps` in transformers, `accumulate_grad_batches` in Lightning.

## How the gain is predicted
Of n reductions n - 1 are saved. High end: (n - 1) / n of the exposed communication. Low end: half of that. In CPU jobs
one to two times that part, because transfers take cores from computing. Measured with gloo on two ranks: 1.36 and 1.93
times.

## When it is wrong
Inside `no_sync` gradients stay whole on every rank. FullyShardedDataParallel then needs memory for all of them.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.bound.lib.exposed_time import exposed_communication
from stepscope.analyses.communication.lib.collective_calls import collective_calls
from stepscope.analyses.communication.lib.communicating_lines import FORWARD, micro_batches
from stepscope.analyses.host.lib.model_places import model_places
from stepscope.analyses.lib.markers import step_markers
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run, stack
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: a smaller gain drowns in the noise between two runs
ON_DEVICE = (0.5, 1.0)  # of that part of the exposed time
ON_HOST = (1.0, 2.0)  # of it: transfers on the host also take cores from computing; measured 1.36 and 1.93 with gloo
OFTEN = 1.5  # reductions per step: more than one, in most steps


def check(run: Run) -> Iterator[Finding]:
    sent = dict(_reductions(run).iter_rows())
    found = []
    for row in exposed_communication(run):
        rounds = sent.get(row.rank, 0.0)
        saved = row.removable * (1 - 1 / rounds) if rounds >= OFTEN else 0.0
        if saved >= MIN_SHARE * row.step:
            found.append((saved, rounds, row))
    if not found:
        return
    saved, rounds, worst = max(found, key=lambda each: each[0] / each[2].step)
    share = worst.removable / worst.step
    part = ON_DEVICE if worst.source == "device_time" else ON_HOST
    yield Finding(
        title=Title(
            "Gradients are reduced {} times per step: {} exposed ({})",
            (Value(round(rounds), "count"), Value(worst.removable, "ns"), Value(share, "ratio")),
        ),
        cause="configuration",
        evidence=(
            Evidence(label="exposed communication", value=worst.removable, unit="ns", source=worst.source, share=share),
            Evidence(label="reductions per step", value=round(rounds), unit="count", source="collectives"),
        ),
        gain=Gain(
            low_ns=int(min(part[0] * saved, worst.step)),
            high_ns=int(min(part[1] * saved, worst.step)),
            step_ns=int(worst.step),
            basis="all reductions of a step but one" if part is ON_DEVICE else _ON_CORES,
            confidence="structural",
            pool="communication",
        ),
        advice=_ADVICE,
        ranks=tuple(row.rank for _, _, row in found),
        where=model_places(run, worst.rank),
    )


def _reductions(run: Run) -> pl.DataFrame:
    """For each rank the micro-batches per step that an all_reduce follows."""
    steps = run.per_rank(_steps, stack)
    forwards = run.per_rank(micro_batches, stack).sort("start")
    sent = collective_calls(run).filter(pl.col("collective") == "all_reduce").select("rank", "start").sort("start")
    if forwards.is_empty() or sent.is_empty():
        return pl.DataFrame(schema={"rank": pl.Int32, "rounds": pl.Float64})
    of = sent.join_asof(
        forwards.with_columns(forward="start"), on="start", by="rank", strategy="backward", check_sortedness=False
    )
    rounds = of.drop_nulls("forward").group_by("rank").agg(pl.col("forward").n_unique())
    return rounds.join(steps, on="rank").select("rank", rounds=pl.col("forward") / pl.col("steps"))


def _steps(run: Run) -> pl.DataFrame:
    return step_markers(run).group_by("rank", maintain_order=True).agg(steps=pl.len())


_ON_CORES = "all reductions of a step but one, and the cores that they take"
_ADVICE = (
    Advice(
        text="Run all micro-batches but the last without reduction",
        code="last = (index + 1) % accumulate == 0\n"
        "with contextlib.nullcontext() if last else model.no_sync():\n"
        "    loss = criterion(model(inputs), targets) / accumulate\n"
        "    loss.backward()",
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    """Four micro-batches of 20 ms, with a reduction of 5 ms after each; fixed, after the last."""
    sends = (False, False, False, True) if fixed else (True,) * 4
    length = 80 + 5 * sum(sends)
    for step in range(4):
        start = at = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        for number, sending in enumerate(sends):
            synth.host(FORWARD, "operator", at, at + 2)
            synth.kernel(at, at + 20)
            if sending:
                correlation = 10 * step + number + 1
                synth.host("cudaLaunchKernel", "runtime", at + 3, at + 3.1, correlation=correlation)
                synth.kernel(
                    at + 20, at + 25, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream="9", correlation=correlation,
                    collective="allreduce", collective_sequence=correlation, group="0", group_size=2,
                )  # fmt: skip
            at += 25 if sending else 20


RULE = Rule(check=check, example=example, explains="exposed-communication")
