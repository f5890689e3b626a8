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
from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.kernels import name_test
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.chosen_work import work_example, work_findings

__all__ = ["RULE"]

MIN_SHARE = 0.10  # of the step: every model reads a little by index
SAVED = (0.4, 0.8)  # of the kernels' time
_BY_INDEX = re.compile(
    r"index_?(?:ing_backward|Func|Select|_elementwise|_put|_add|_copy|_fill)|linearize_index|masked_(?:select|scatter)"
    r"|_?scatter_gather|gatherKernel|scatterKernel|vectorized_gather|gatherTopK|sbtopk|searchsorted"
    r"|[rR]adix_?[sS]ort|bitonicSort|segmented_sort|merge_sort"
)
_EMBEDDING = re.compile(r"(?i)embedding|compute_grad_weight")


def check(run: Run) -> Iterator[Finding]:
    yield from work_findings(
        run,
        _chosen,
        MIN_SHARE,
        "Kernels that scatter, gather or sort take {} per step ({})",
        labels=("indexing per step", "indexing kernels per step"),
        part=SAVED,
        basis="time of the kernels that scatter, gather or sort",
        advice=_ADVICE,
    )


def _chosen(run: Run) -> pl.Series:
    return name_test(work_names(run), lambda name: bool(_BY_INDEX.search(name)) and not _EMBEDDING.search(name))


_ADVICE = (
    Advice(text="Keep the shape instead of selecting by a mask", code="values = torch.where(mask, values, 0.0)"),
    Advice(
        text="Sum a few classes by a matrix product",
        code="sums = nn.functional.one_hot(labels, classes).to(values.dtype).T @ values",
    ),
    Advice(text="Sort or group indices once, in the dataset"),
)


def example(synth: Synth, fixed: bool) -> None:
    name = "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)"
    work_example(synth, name, 8 if fixed else 20, beside=80)


RULE = Rule(check=check, example=example)
