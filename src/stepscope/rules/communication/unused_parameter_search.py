"""DistributedDataParallel looks for unused parameters in every step.

## What it finds
Traces with `search_unused_parameters` that takes more than 1 % of the step: `find_unused_parameters=True`.

## Why it costs time
After each forward pass the graph of autograd is walked from the loss to every parameter, on the training thread.
Backward also reduces a map of the used ones.

## What to do
Leave the option out where every parameter gets a gradient in each step. If the unused ones are always the same, use
`static_graph=True`: the walk is then done once.

## How the gain is predicted
The recorded time of the search. Low end: half of it, as a device may have had work meanwhile.

## When it is wrong
A model whose branches change from step to step needs it: without it, DistributedDataParallel raises an error, and
nothing worse happens.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.operators.lib.host_costs import HostCost, traced_calls
from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.rules.communication.lib.wrapper_calls import wrapper_findings

__all__ = ["RULE"]

MIN_SHARE = 0.01  # of the step: it is measured, and the remedy is one word
SAVED = (0.5, 1.0)  # of the time: a device may have had work meanwhile
_SEARCH = pl.col("name") == "torch.distributed.ddp.reducer::search_unused_parameters"


def check(run: Run) -> Iterator[Finding]:
    yield from wrapper_findings(
        run,
        _searches,
        MIN_SHARE,
        "Searching for unused parameters takes {} per step ({})",
        labels=("search per step", "searches per step"),
        part=SAVED,
        basis="recorded time of the search",
        advice=(
            Advice(
                text="Leave find_unused_parameters out, if every parameter is used in each step",
                code="model = DistributedDataParallel(model)",
            ),
            Advice(
                text="If always the same ones are unused, search once",
                code="model = DistributedDataParallel(model, static_graph=True)",
            ),
        ),
        setting="find_unused_parameters",
    )


def _searches(run: Run) -> tuple[HostCost, ...]:
    return tuple(calls.cost(calls.tree.passing(_SEARCH)) for calls in traced_calls(run))


def example(synth: Synth, fixed: bool) -> None:
    length = 60 if fixed else 64
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.host("aten::mm", "operator", start, start + 60)
        if not fixed:
            name = "torch.distributed.ddp.reducer::search_unused_parameters"
            synth.host(name, "operator", start + 60, start + 64)


RULE = Rule(check=check, example=example)
