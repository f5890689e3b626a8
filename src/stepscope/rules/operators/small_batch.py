"""The batch is so small that calling operators takes longer than computing.

## What it finds
CPU jobs with batches of at most 16 samples, whose forward and backward take more than half of the step in operators
below 50 µs and in Python between them.

## Why it costs time
An operator costs some microseconds before it computes anything, and Python around it as much. A batch of two samples
pays it as often as one of 64.

## What to do
Raise the batch size as far as memory and convergence allow, and the learning rate with it. If the batch must stay
small, `torch.compile` makes fewer calls of it.

## How the gain is predicted
For the same number of samples, with eight times the batch. High end: seven eighths of the step, as seven of eight calls
of the loader, the operators and the optimizer go. Low end: half of that, or eight tenths of that part of the time in
short operators, whichever is more. Measured: 84 % of the step.

## When it is wrong
Larger batches converge differently. Reinforcement learning and online learning may have one sample at a time.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.input_pipeline.lib.loader_facts import loader_facts
from stepscope.analyses.operators.lib.weight_uses import WeightUses, weight_uses
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.looped_model import MANY

__all__ = ["RULE"]

SMALL = 16  # samples: with more, operators of common models take longer than calling them
MIN_SHARE = 0.5  # of the step: with less, computing is what takes the time
LARGER = 8  # times the batch
CERTAIN = 0.8  # of the calls that go: what little the samples themselves cost is left


def check(run: Run) -> Iterator[Finding]:
    sizes = _sizes(run)
    found = [
        row
        for row in weight_uses(run)
        if sizes.get(row.rank, SMALL + 1) <= SMALL and row.uses < MANY and row.short >= MIN_SHARE * row.step
    ]
    if found:
        worst = max(found, key=lambda row: row.short / row.step)
        yield _finding(run, worst, sizes[worst.rank], tuple(row.rank for row in found))


def _sizes(run: Run) -> dict[int, int]:
    loaders = run.optional("loaders").filter(pl.col("train").fill_null(False)).drop_nulls("batch_size")
    if loaders.is_empty():
        raise MissingData("batch size of the training loader", how="run it with `stepscope run -- COMMAND`")
    return dict(loaders.group_by("rank").agg(pl.col("batch_size").max()).iter_rows())


def _finding(run: Run, worst: WeightUses, size: int, ranks: tuple[int, ...]) -> Finding:
    share, saved, most = worst.short / worst.step, worst.short * (1 - 1 / LARGER), worst.step * (1 - 1 / LARGER)
    facts = loader_facts(run, worst.rank)
    return Finding(
        title=Title(
            "Batch size {} is small: calling operators takes {} of the step",
            (Value(size, "count"), Value(share, "ratio")),
        ),
        cause="configuration",
        evidence=(
            Evidence(
                label="calling operators per step",
                value=worst.short,
                unit="ns",
                source="operators",
                share=share,
            ),
            Evidence(label="batch size", value=size, unit="count", source="loaders"),
        ),
        gain=Gain(
            low_ns=int(max(most / 2, CERTAIN * saved)),
            high_ns=int(most),
            step_ns=int(worst.step),
            basis="8× the batch: an eighth of the calls for the same samples",
            confidence="structural",
            pool="repeated-steps",
        ),
        advice=(
            Advice(
                text=f"Increase the batch size as far as memory and convergence allow{facts.at}",
                code=f"DataLoader(..., batch_size={LARGER * size})",
            ),
            Advice(text="If it must stay small, compile the model", code="model = torch.compile(model)"),
        ),
        ranks=ranks,
        where=facts.where,
    )


def example(synth: Synth, fixed: bool) -> None:
    """Steps of 10 ms with 60 operators of 1 µs; fixed, a quarter of them, as long."""
    synth.add("loaders", loader=0, train=True, batch_size=64 if fixed else 8, num_workers=0)
    for step in range(16 if fixed else 64):
        start = step * 10
        synth.step(step, start, start + 10, forward=5, backward=4.5, optimizer=0.5, samples=64 if fixed else 8)
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 10)
        for number in range(50):
            synth.host("aten::addmm", "operator", start + 0.1 * number, start + 0.1 * number + 0.001)
        for number in range(10):
            name = "autograd::engine::evaluate_function: AddmmBackward0"
            at = start + 5 + 0.4 * number
            synth.host(name, "operator", at, at + 0.001, forward_thread=1, sequence=number)
            name = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
            synth.host(name, "operator", at + 0.1, at + 0.101, forward_thread=1)
        synth.host("Optimizer.step#SGD.step", "annotation", start + 9.5, start + 10)


RULE = Rule(check=check, example=example, explains="host-bound")
