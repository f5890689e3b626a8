"""Many elementwise kernels run one after the other, each through memory.

## What it finds
Devices that are busy for 80 % of the step or more. In runs of three or more elementwise kernels with the same grid on
one stream, all but the two longest kernels of each run take more than 5 % of the step (catalogue: C04, D12). Copies,
casts, fills and the optimizer do not count, nor what belongs to attention. Silent where Triton kernels ran: the model
is compiled already.

## Why it costs time
Each kernel reads its inputs from memory and writes its result back, for one operation per element. A fused kernel
reads once and writes once.

## What to do
`torch.compile` fuses the run, or a library has the whole of it as one operator: GELU, RMSNorm, rotary embeddings.

## How the gain is predicted
High end: the time of all kernels of a run but the two longest, which stand for reading the inputs and writing the
result. Low end: half of that, as backward needs some results in between.

## When it is wrong
Kernels that follow each other may compute with different tensors, and then less is fused. Compiling takes minutes,
and shapes that change compile again.
"""

import re
from collections.abc import Iterator

import polars as pl

from stepscope.analyses.lib.device_work import device_work, work_names
from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.kernels import name_test
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.attention import attention_chains
from stepscope.rules.operators.lib.chosen_work import work_findings
from stepscope.rules.operators.lib.launchers import launched_inside

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: half of it, the low end of the gain, is above the noise between two runs
SAVED = (0.5, 1.0)  # of the kernels beside the two longest of a run; half if backward needs results in between
SHORTEST_RUN = 3  # kernels: of two, reading and writing takes as long when they are one
_ELEMENTWISE = re.compile(
    r"^void at::native::(?:\(anonymous namespace\)::)?(?:\w+_)?elementwise_kernel(?:_manual_unroll)?<"
)
_OTHER = re.compile(r"_copy_kernel|FillFunctor|index|distribution_|scatter|multi_tensor")


def check(run: Run) -> Iterator[Finding]:
    yield from work_findings(
        run,
        _chosen,
        MIN_SHARE,
        "Fusing elementwise kernels would spare {} per step ({})",
        labels=("fusible kernels per step", "kernels to spare"),
        part=SAVED,
        basis="runs of elementwise kernels, without the two longest of each",
        advice=(
            Advice(text="Compile the model: one kernel for each run", code="model = torch.compile(model)"),
            Advice(
                text="Or call the fused operator, where there is one",
                code='x = torch.nn.functional.gelu(x, approximate="tanh")',
            ),
        ),
    )


def _chosen(run: Run) -> pl.Series:
    return run.once(_spare)


def _spare(run: Run) -> pl.Series:
    """The kernels of each run but its two longest."""
    names = work_names(run)
    if name_test(names, lambda name: name.startswith("triton_")).any():
        return pl.Series([False]).new_from_index(0, len(names))
    fusible = name_test(names, lambda name: _ELEMENTWISE.match(name) is not None and not _OTHER.search(name))
    fusible &= ~launched_inside(run, pl.col("name").str.starts_with("Optimizer.")) & ~attention_chains(run).work
    key = ["rank", "device", "stream"]
    work = device_work(run, "stream", "grid", "index").with_columns(fusible=fusible).with_row_index("row")
    work = work.filter(pl.col("kind") == "kernel").sort(*key, "start", "index")
    same = pl.all_horizontal(pl.col(*key, "grid", "fusible").eq_missing(pl.col(*key, "grid", "fusible").shift(1)))
    runs = work.with_columns(run=(~same).cum_sum()).filter("fusible")
    long = (pl.col("end") - pl.col("start")).rank("ordinal", descending=True).over("run")
    spare = runs.filter((pl.len().over("run") >= SHORTEST_RUN) & (long > 2))["row"]
    return pl.int_range(len(names), eager=True).is_in(spare.cast(pl.Int64).implode())


def example(synth: Synth, fixed: bool) -> None:
    kernels = 2 if fixed else 7
    length = 60 + 5 * kernels
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.kernel(start, start + 60, "gemm", blocks_per_sm=4.0)
        for number in range(kernels):
            begin = start + 60 + 5 * number
            name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
            synth.kernel(begin, begin + 5, name, blocks_per_sm=4.0)


RULE = Rule(check=check, example=example)
