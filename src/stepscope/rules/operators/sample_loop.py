"""A loop calls the model, or a layer of it, many times in a step.

## What it finds
CPU jobs in which a step uses each weight eight times or more, and in which short operators and Python between them
take more than 10 % of the step. Uses are counted from the functions of autograd and the gradients that they add up to.

## Why it costs time
An operator costs some microseconds, and Python around it as much, however small its tensors are. One call on the whole
batch costs that once, and its operators have work for all cores.

## What to do
Call the model once on the whole batch. Where samples differ in length, pad them, or use nested tensors. For a function
of one sample use `torch.vmap`.

## How the gain is predicted
The time of forward and backward outside of operators of 50 µs and more, but that of one pass: 0.6 to 1.2 times of it,
as long operators get shorter, too. Measured on two CPUs: 1.03 and 1.12 times.

## When it is wrong
A model that uses a layer again by design cannot be called once: recurrent networks, shared layers, diffusion steps.
"""

from collections.abc import Iterator

from stepscope.analyses.operators.lib.weight_uses import weight_uses
from stepscope.core.finding import Advice, Finding, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.looped_model import MANY, MIN_SHARE, loop_example, loop_finding

__all__ = ["RULE"]

_ADVICE = (
    Advice(
        text="Call the model once on the whole batch",
        code="scores = model(pictures)  # one call for all samples\nloss = criterion(scores, labels)",
    ),
    Advice(text="For a function of one sample", code="scores = torch.vmap(function)(pictures)"),
)


def check(run: Run) -> Iterator[Finding]:
    found = [
        row for row in weight_uses(run) if row.uses >= MANY and row.cells < MANY and row.short >= MIN_SHARE * row.step
    ]
    if not found:
        return
    worst = max(found, key=lambda row: row.short / row.step)
    title = Title(
        "Each layer runs {} times per step: short operators take {}",
        (Value(round(worst.uses), "count"), Value(worst.short, "ns")),
    )
    yield loop_finding(run, worst, title, _ADVICE, tuple(row.rank for row in found))


def example(synth: Synth, fixed: bool) -> None:
    loop_example(synth, fixed)


RULE = Rule(check=check, example=example, explains="host-bound")
