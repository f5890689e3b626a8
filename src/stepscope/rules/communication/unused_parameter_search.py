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

from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.operators.lib.host_costs import HostCost, traced_calls
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MIN_SHARE = 0.01  # of the step: it is measured, and the remedy is one word
_SEARCH = pl.col("name") == "torch.distributed.ddp.reducer::search_unused_parameters"


def check(run: Run) -> Iterator[Finding]:
    found = [cost for cost in run.per_rank(_searches, chain) if cost.time >= MIN_SHARE * cost.step > 0]
    if not found:
        return
    worst = max(found, key=lambda cost: cost.time / cost.step)
    share = worst.time / worst.step
    yield Finding(
        title=Title(
            "Searching for unused parameters takes {} per step ({})", (Value(worst.time, "ns"), Value(share, "ratio"))
        ),
        cause="configuration",
        evidence=(
            Evidence(label="search per step", value=worst.time, unit="ns", source="operators", share=share),
            Evidence(label="searches per step", value=round(worst.calls), unit="count", source="operators"),
        ),
        gain=Gain(
            low_ns=int(worst.time / 2),
            high_ns=int(worst.time),
            step_ns=int(worst.step),
            basis="recorded time of the search",
            confidence="structural",
            pool="host",
        ),
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
        ranks=tuple(cost.rank for cost in found),
        where=setting_places(run, "find_unused_parameters", worst.rank),
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
