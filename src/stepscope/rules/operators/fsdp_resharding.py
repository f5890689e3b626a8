"""Sharded parameters are gathered again for backward.

## What it finds
FSDP jobs whose backward gathers parameters that forward had gathered already, for more than 5 % of the step. On a GPU
only gathers count that no kernel hides, on a device that is busy for 80 % of the step or more (catalogue: F18).

## Why it costs time
After a layer's forward FSDP frees what it gathered from the other ranks. Backward needs it again, so each step gathers
all parameters twice.

## What to do
Keep the gathered parameters until backward: `fully_shard(layer, reshard_after_forward=False)`, in FSDP1
`ShardingStrategy.SHARD_GRAD_OP`. Gradients and the optimizer's state stay sharded. If memory is short, do it for the
layers that fit, or prefetch: `layer.set_modules_to_backward_prefetch([previous_layer])`.

## How the gain is predicted
The time of these gathers and of copying them into place, 0.7 to 1.4 times: ranks then wait for one another elsewhere,
but freeing and allocating ends, too. Measured with two ranks on CPUs: 1.0 and 1.25 times.

## When it is wrong
Each rank then holds all parameters between forward and backward: 2 GB for a billion in bfloat16. The trace does not
tell whether that fits.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.lib.host_events import HostTree, host_tree
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.core.finding import Advice, Finding, Rule, Title
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.launchers import Bools, inside, launched_by
from stepscope.rules.operators.lib.work_or_operators import OperatorCost, costly, operator_costs

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: two thirds of it, the low end of the gain, is above the noise between two runs
SAVED = (0.7, 1.4)  # of the time, see above
_BACKWARD = r"^FSDP::pre_backward"
_GATHERS = r"^FSDP::all_gather"
_OF_FSDP1 = r"^FullyShardedDataParallel\._pre_backward_hook"  # it does nothing else that takes time
_WRAPS = r"\b(fully_shard|FSDP|FullyShardedDataParallel)\("


def check(run: Run) -> Iterator[Finding]:
    slow = costly(run.per_rank(_costs, chain), MIN_SHARE)
    if not slow:
        return
    worst = slow[0]
    yield Finding(
        title=Title("FSDP gathers parameters again for backward: {} per step ({})", worst.takes),
        cause="configuration",
        evidence=(worst.evidence("gathers in backward"),),
        gain=worst.gain(SAVED, "gathers in backward, and copies of what they bring", "structural"),
        advice=_ADVICE,
        ranks=tuple(sorted(one.rank for one in slow)),
        where=setting_places(run, _WRAPS, worst.rank),
    )


def _costs(run: Run) -> tuple[OperatorCost, ...]:
    tree = host_tree(run)
    again = _again(tree)
    if not again.any():
        return ()
    return operator_costs(run, again, launched_by(run, inside(tree, again)) if has_gpu(run) else None)


def _again(tree: HostTree) -> Bools:
    """The rows of gathers that run before a layer's backward."""
    name = pl.col("name").str
    backward = inside(tree, tree.passing(name.contains(_BACKWARD)))
    again: Bools = (backward & tree.passing(name.contains(_GATHERS))) | tree.passing(name.contains(_OF_FSDP1))
    return again


_ADVICE = (
    Advice(
        text="If memory is left, keep the gathered parameters until backward",
        code="fully_shard(layer, reshard_after_forward=False)\n"
        "# FSDP1: FullyShardedDataParallel(..., sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)",
    ),
    Advice(
        text="Or gather one layer ahead, while the layer before computes",
        code="layer.set_modules_to_backward_prefetch([previous_layer])",
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    again = 0 if fixed else 20
    length = 80 + again
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.host("FSDP::all_gather (0)", "annotation", start, start + 15)
        synth.host("aten::mm", "operator", start + 15, start + 50)
        if again:
            synth.host("FSDP::pre_backward (0)", "annotation", start + 50, start + 50 + again)
            synth.host("FSDP::all_gather (0)", "annotation", start + 50, start + 50 + again)
        synth.host("aten::mm", "operator", start + 50 + again, start + length)


RULE = Rule(check=check, example=example, explains="exposed-communication")
