"""Kernels that scatter, gather or sort take a good part of the step.

## What it finds
Devices that are busy for 80 % of the step or more. Kernels that read or write by index, accumulate into indexed
elements or sort take more than 10 % of it (catalogue: D20). Gradients of embeddings are left to
[dense-embedding-gradient](dense-embedding-gradient.md).

## Why it costs time
Elements that lie apart are read one by one, at a fraction of the device's bandwidth. Sums into the same element wait
for one another. A sort passes over its data many times.

## What to do
Sort or group indices once, in the dataset. Replace a mask by `torch.where`, which keeps the shape. Sum few classes by a
matrix product with their one-hot rows. Take only the `topk` that is needed instead of a sort.

## How the gain is predicted
Four to eight tenths of the time in these kernels: some indexing is left, and what replaces it takes time too.

## When it is wrong
Graph networks, mixtures of experts and beam search do this by design. Kernels made for them (`torch_scatter`,
`segment_reduce`, grouped matrix products) are then the only gain.
"""

import re
from collections.abc import Iterator

import polars as pl

from stepscope.analyses.lib.device_work import work_names
from stepscope.analyses.lib.launch_lines import launch_lines
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.core.finding import Advice, Finding, Rule, Title
from stepscope.core.kernels import name_test
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.chosen_work import Chosen, above, chosen_work, work_finding

__all__ = ["RULE"]

MIN_SHARE = 0.10  # of the step: every model reads a little by index
SAVED = (0.4, 0.8)  # of the kernels' time
_BY_INDEX = re.compile(
    r"index_?(?:ing_backward|Func|Select|_elementwise|_put|_add|_copy|_fill)|_?scatter_gather|gatherKernel|scatterKernel|vectorized_gather|linearize_index|searchsorted"
    r"|masked_(?:select|scatter)|[rR]adix_?[sS]ort|bitonicSort|segmented_sort|merge_sort|sbtopk|gatherTopK"
)
_EMBEDDING = re.compile(r"(?i)embedding|compute_grad_weight")


def check(run: Run) -> Iterator[Finding]:
    need_gpu(run)
    slow = above(run.per_rank(_busy, chain), MIN_SHARE)
    if slow:
        yield work_finding(
            run,
            slow,
            _lines,
            Title("Kernels that scatter, gather or sort take {} per step ({})", slow[0].takes),
            labels=("indexing per step", "indexing kernels per step"),
            part=SAVED,
            basis="time of the kernels that scatter, gather or sort",
            advice=_ADVICE,
        )


def _chosen(run: Run) -> pl.Series:
    return name_test(work_names(run), lambda name: bool(_BY_INDEX.search(name)) and not _EMBEDDING.search(name))


def _busy(run: Run) -> tuple[Chosen, ...]:
    return chosen_work(run, _chosen(run))


def _lines(run: Run) -> pl.DataFrame:
    return launch_lines(run, _chosen(run))


_ADVICE = (
    Advice(text="Keep the shape instead of selecting by a mask", code="values = torch.where(mask, values, 0.0)"),
    Advice(
        text="Sum a few classes by a matrix product",
        code="sums = nn.functional.one_hot(labels, classes).to(values.dtype).T @ values",
    ),
    Advice(text="Sort or group indices once, in the dataset"),
)


def example(synth: Synth, fixed: bool) -> None:
    indexing = 8 if fixed else 20
    length = 80 + indexing
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.kernel(start, start + 80, "gemm", blocks_per_sm=4.0)
        name = "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)"
        synth.kernel(start + 80, start + length, name, blocks_per_sm=4.0)


RULE = Rule(check=check, example=example)
