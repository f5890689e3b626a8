"""Autograd's anomaly detection is left on.

## What it finds
Traces in which autograd checks the result of every second function, or more, for NaN. `set_detect_anomaly(True)` and
`detect_anomaly()` do that, also where a framework switches them on.

## Why it costs time
Forward keeps a Python stack for each operator that has a gradient, which took 40 µs where it was measured. Backward
searches every gradient for NaN and reads the answer; on a GPU that waits for the device each time.

## What to do
Switch it off for training. Switch it on for the few steps in which you look for a NaN.

## How the gain is predicted
Backward: the recorded time of the checks. Forward: the number of functions times what a stack costs. That is read from
operators that compute nothing (`t`, `view`, …): what those in forward take above those in backward; 20 µs without
any. Range: 0.8 to 1.35 times the sum: measured on a CPU with 30 small layers, 1.13 to 1.29.

## When it is wrong
A job that looks for a NaN needs it. With large operators it costs little, and the rule is silent.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl

from stepscope.analyses.host.lib.model_places import model_places
from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.analyses.operators.lib.host_costs import HostCost, TracedCalls, traced_calls
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MIN_SHARE = 0.03  # of the step: the remedy is one line, and changes no result
CHECKED = 0.5  # of autograd's functions: a model's own test for NaN is one or two in a step
RANGE = (0.8, 1.35)  # of the estimate, which does not see what autograd does around a check; measured 1.13 to 1.29
ON_DEVICE = 0.5  # of the low end, where the device may have worked while the host waited for the checks
STACK = 20_000  # ns of a Python stack, where no operator tells: half of what was measured
CHEAPEST = 10  # percentile: what an operator that computes nothing takes without a stack

_NAME = pl.col("name").str
_FUNCTION = _NAME.starts_with("autograd::engine::evaluate_function: ") & ~_NAME.ends_with("AccumulateGrad")
_EACH = pl.col("name") == "aten::isnan"
_CHECK = _NAME.contains(r"^aten::(isnan|_is_any_true|item)$")
_VIEW = _NAME.contains(r"^aten::(t|view|transpose|permute|unsqueeze|squeeze|expand|select|slice|reshape)$")
_OF_VIEW = _FUNCTION & _NAME.contains(
    r": (T|View|Transpose|Permute|Unsqueeze|Squeeze|Expand|Select|Slice|UnsafeView)Backward\d*$"
)
_SETTING = r"detect_anomaly"


def check(run: Run) -> Iterator[Finding]:
    found = [(*times, cost) for times, cost in run.per_rank(_costs, chain) if sum(times) >= MIN_SHARE * cost.step]
    if not found:
        return
    forward, backward, worst = max(found, key=lambda row: (row[0] + row[1]) / row[2].step)
    time = forward + backward
    low, high = RANGE[0] * time * (ON_DEVICE if has_gpu(run) else 1.0), min(RANGE[1] * time, worst.step)
    yield Finding(
        title=Title(
            "Anomaly detection is on: {} per step ({})", (Value(time, "ns"), Value(time / worst.step, "ratio"))
        ),
        cause="configuration",
        evidence=(
            Evidence(label="stacks kept in forward", value=forward, unit="ns", source="host"),
            Evidence(label="NaN checks in backward", value=backward, unit="ns", source="operators"),
            Evidence(label="checks per step", value=worst.calls, unit="count", source="operators"),
        ),
        gain=Gain(
            low_ns=int(min(low, high)),
            high_ns=int(high),
            step_ns=int(worst.step),
            basis="recorded checks, and the stacks that operators keep",
            confidence="structural",
            pool="host",
        ),
        advice=(
            Advice(
                text="Switch anomaly detection off, but for the steps in which you look for a NaN",
                code="torch.autograd.set_detect_anomaly(False)",
            ),
        ),
        ranks=tuple(row[2].rank for row in found),
        where=setting_places(run, _SETTING, worst.rank) or model_places(run, worst.rank),
    )


Costs = tuple[tuple[float, float], HostCost]


def _costs(run: Run) -> tuple[Costs, ...]:
    """For each rank with such checks, ns per step of forward and of backward, and the checks."""
    return tuple(cost for calls in traced_calls(run) if (cost := _of_rank(calls)) is not None)


def _of_rank(calls: TracedCalls) -> Costs | None:
    functions, each, checks = (calls.cost(calls.tree.passing(test)) for test in (_FUNCTION, _EACH, _CHECK))
    if not functions.calls or each.calls < CHECKED * functions.calls:
        return None
    return (functions.calls * _stack(calls), checks.time), each


def _stack(calls: TracedCalls) -> float:
    """What one Python stack costs in ns of a steady step: what operators that compute nothing take above the cheapest,
    by the functions that undo them. Those in backward keep none."""
    views = calls.rows[calls.tree.passing(_VIEW)[calls.rows]]
    undone = calls.cost(calls.tree.passing(_OF_VIEW)).calls * calls.steps
    times = calls.tree.nesting.self_time[views]
    if not undone or len(times) <= undone:
        return STACK
    above = times - np.percentile(times, CHEAPEST)
    return float(above.clip(min=0).sum()) / undone * calls.step / calls.traced


def example(synth: Synth, fixed: bool) -> None:
    """Ten functions of a step: each keeps a stack of 1 ms in forward, and is checked for 1 ms in backward, where
    operators that compute nothing keep none."""
    cost = 0 if fixed else 1
    length = 60 + 20 * cost
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        for number in range(10):
            at = start + number * (1 + cost)
            synth.host("aten::t", "operator", at, at + 0.002 + cost)
            back = start + 10 * (1 + cost) + number * (4 + cost)
            name = "autograd::engine::evaluate_function: TBackward0"
            synth.host("aten::t", "operator", back + 1, back + 1.002)
            synth.host(name, "operator", back, back + 4 + cost, forward_thread=1, sequence=number)
            if not fixed:
                synth.host("aten::isnan", "operator", back + 4, back + 5)


RULE = Rule(check=check, example=example)
