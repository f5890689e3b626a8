"""DataParallel copies the model to every device in each step, from one process.

## What it finds
Traces with `DataParallel.forward` on two devices or more (catalogue: C16). The copies of the model, the inputs and the
outputs that it makes take more than 3 % of the step.

## Why it costs time
One process drives all devices: the weights are sent to each of them before every forward pass, the outputs are gathered
on the first, and the gradients summed there. Its threads share one interpreter, so launches for one device wait for
those of another.

## What to do
Use `DistributedDataParallel` with a process for each device. Each keeps its copy of the model, and only gradients
travel, while backward goes on.

## How the gain is predicted
Low end: the time of scattering, copying and gathering in forward. High end: twice it, for the same in backward, and for
threads that wait for one another.

## When it is wrong
Two devices without a fast link between them may gain less.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.operators.lib.host_costs import HostCost, traced_calls
from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.rules.communication.lib.wrapper_calls import wrapper_findings

__all__ = ["RULE"]

MIN_SHARE = 0.03  # of the step: half of what may be saved
SAVED = (1.0, 2.0)  # of the recorded time in forward
_FORWARD = pl.col("name") == "DataParallel.forward"
_MOVES = pl.col("name").is_in(("Broadcast", "Scatter", "Gather", "DataParallel.replicate"))


def check(run: Run) -> Iterator[Finding]:
    yield from wrapper_findings(
        run,
        _moves,
        MIN_SHARE,
        "DataParallel copies model and batches {} per step ({})",
        labels=("copies in forward", "such calls per step"),
        part=SAVED,
        basis="copies that DataParallel makes in forward, and as much in backward",
        advice=_ADVICE,
        setting=r"(?<!Distributed)DataParallel\(",
    )


def _moves(run: Run) -> tuple[HostCost, ...]:
    rows = []
    for calls in traced_calls(run):
        parallel = calls.tree.passing(_FORWARD)
        if parallel[calls.rows].any():
            rows.append(calls.cost(calls.tree.passing(_MOVES)))
    return tuple(rows)


_ADVICE = (
    Advice(
        text="Use DistributedDataParallel, one process for each device: torchrun --nproc-per-node=gpu train.py",
        code="torch.distributed.init_process_group()\n"
        "device = torch.device('cuda', int(os.environ['LOCAL_RANK']))\n"
        "model = nn.parallel.DistributedDataParallel(model.to(device), device_ids=[device])",
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    moves = 0 if fixed else 10
    length = 90 + 1.5 * moves
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        if moves:
            synth.host("DataParallel.forward", "annotation", start, start + 50)
            synth.host("Scatter", "operator", start, start + 2)
            synth.host("Broadcast", "operator", start + 2, start + moves)
        synth.host("aten::mm", "operator", start + 1.5 * moves, start + length)


RULE = Rule(check=check, example=example)
