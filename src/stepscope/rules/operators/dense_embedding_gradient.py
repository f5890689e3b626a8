"""The gradient of an embedding is a dense tensor of the whole table.

## What it finds
`embedding_dense_backward` takes more than 5 % of the step (catalogue: D20). A GPU must be busy for 80 % of the step or
more. Without a GPU the operator's own time counts, from 2 % on.

## Why it costs time
A batch looks up a few rows. Its gradient has all rows of the table: they are filled with zeros, the few are added, and
the optimizer updates every row.

## What to do
`sparse=True` for the embedding, with an optimizer that takes sparse gradients: SGD, Adagrad or SparseAdam.

## How the gain is predicted
High end: all of the time in this operator; without a GPU that of the optimizer, too, which updates mostly this table.
Low end: half of it, for the rows that were looked up. Measured on a CPU with 300,000 rows: 0.95 of it.

## When it is wrong
SparseAdam and SGD update rows only when they are looked up, so momentum and weight decay act otherwise. Where a batch
looks up most of the table, a dense gradient is the better one. Tied output weights need it.
"""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.lib.host_events import host_tree
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Rule, Title
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.launchers import inside
from stepscope.rules.operators.lib.work_or_operators import OperatorCost, costly, operator_costs

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: half of it, the low end of the gain, is above the noise between two runs
BESIDE_OPTIMIZER = 0.02  # of the step on a CPU: an optimizer that updates all rows takes several times as long
SAVED = (0.5, 1.0)  # of the operator's time; half if adding up rows takes as long as filling zeros


def check(run: Run) -> Iterator[Finding]:
    slow = costly(run.per_rank(_costs, chain), MIN_SHARE if has_gpu(run) else BESIDE_OPTIMIZER)
    if not slow:
        return
    worst = _with_optimizer(run, slow[0])
    yield Finding(
        title=Title("Dense gradients of embeddings take {} per step ({})", worst.takes),
        cause="configuration",
        evidence=(
            worst.evidence("embedding gradient per step"),
            Evidence(label="kernels or operators", value=worst.count, unit="count", source=worst.source),
        ),
        gain=worst.gain(SAVED, "time in embedding_dense_backward", "structural"),
        advice=(
            Advice(
                text="Make the gradient sparse, and give the table an optimizer of its own",
                code="""\
embedding = torch.nn.Embedding(rows, width, sparse=True)
optimizer = torch.optim.SparseAdam(embedding.parameters())""",
            ),
        ),
        ranks=tuple(sorted(one.rank for one in slow)),
        where=setting_places(run, r"\bEmbedding(Bag)?\(", worst.rank),
    )


def _with_optimizer(run: Run, cost: OperatorCost) -> OperatorCost:
    """The same with the optimizer's time of a mean step, where the host computes and its steps were timed."""
    if cost.source != "operators":
        return cost
    try:
        means = enough_steps(run).filter(rank=cost.rank).select(pl.col("duration", "optimizer").mean()).row(0)
    except MissingData:
        return cost
    step, optimizer = float(means[0] or 0.0), float(means[1] or 0.0)
    return replace(cost, time=cost.share * step + optimizer, step=step) if step else cost


def _costs(run: Run) -> tuple[OperatorCost, ...]:
    tree = host_tree(run)
    marked = tree.passing(pl.col("name") == "aten::embedding_dense_backward") & tree.operators
    return operator_costs(run, inside(tree, marked)) if marked.any() else ()


def example(synth: Synth, fixed: bool) -> None:
    gradient = 0 if fixed else 20
    length = 80 + gradient
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.host("aten::addmm", "operator", start, start + 80)
        if gradient:
            synth.host("aten::embedding_dense_backward", "operator", start + 80, start + length)


RULE = Rule(check=check, example=example)
