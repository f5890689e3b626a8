"""The optimizer launches several kernels for each parameter.

## What it finds
Devices that are busy for 80 % of the step or more. The optimizer's step launches 300 kernels or more, none of which
updates several tensors at once, and they take more than 5 % of the step (catalogue: D07, D08). Only where the optimizer
itself was not recorded; else `single-tensor-optimizer` looks.

## Why it costs time
Each of these kernels reads and writes a tensor for one operation. A fused kernel updates many tensors, and reads and
writes each once.

## What to do
`fused=True` where the class has it (Adam, AdamW, SGD, Adagrad); else `foreach=True`.

## How the gain is predicted
From 35 % (SGD with momentum: eight passes over the tensors become five) to 70 % of these kernels' time (Adam, and small
tensors, whose kernels take as long as their start).

## When it is wrong
A fused update rounds differently in the last bits. An optimizer of one's own has no such option; compile its step.
"""

import re
from collections.abc import Iterator

import polars as pl

from stepscope.analyses.lib.device_work import device_work, work_names
from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.kernels import name_test
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.chosen_work import work_findings
from stepscope.rules.operators.lib.launchers import launched_inside

__all__ = ["RULE"]

MANY = 300  # kernels per step: three for each of a hundred parameters
MIN_SHARE = 0.05  # of the step: a third of it, the low end of the gain, is near the noise between two runs
SAVED = (0.35, 0.70)  # of the kernels' time: eight passes become five, up to what small tensors save
_TOGETHER = re.compile(r"multi_tensor|[Ff]used")


def check(run: Run) -> Iterator[Finding]:
    yield from work_findings(
        run,
        _chosen,
        MIN_SHARE,
        "The optimizer updates tensors one by one: {} per step ({})",
        labels=("optimizer kernels per step", "optimizer launches per step"),
        part=SAVED,
        basis="fewer passes over the tensors of the optimizer",
        advice=(
            Advice(
                text="Update all tensors in one call",
                code="optimizer = torch.optim.AdamW(model.parameters(), fused=True)",
            ),
        ),
        cause="configuration",
        confidence="table",
        fewest=MANY,
    )


def _chosen(run: Run) -> pl.Series:
    """The kernels of the optimizer, none if it updates tensors together or was recorded itself."""
    work = device_work(run)
    chosen = launched_inside(run, pl.col("name").str.starts_with("Optimizer.step#")) & (work["role"] == "compute")
    together = name_test(work_names(run), lambda name: _TOGETHER.search(name) is not None)
    ranks = pl.concat([work["rank"].filter(chosen & together), run.optional("optimizers", "rank")["rank"]]).unique()
    return chosen & ~work["rank"].is_in(ranks.implode())


def example(synth: Synth, fixed: bool) -> None:
    update, kernels = (20, 10) if fixed else (40, 400)
    length, each = 60 + update, update / kernels
    name = "multi_tensor_apply_kernel" if fixed else "void at::native::vectorized_elementwise_kernel<4, add>"
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.host("Optimizer.step#SGD.step", "annotation", start + 60, start + length)
        synth.kernel(start, start + 60, "gemm", blocks_per_sm=4.0)
        for number in range(kernels):
            begin, launch = start + 60 + each * number, 1000 * step + number + 1
            synth.host("cudaLaunchKernel", "runtime", begin, begin + each / 2, correlation=launch)
            synth.kernel(begin, begin + each, name, blocks_per_sm=4.0, correlation=launch)


RULE = Rule(check=check, example=example)
