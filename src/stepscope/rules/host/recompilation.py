"""torch.compile compiles again in steady steps.

## What it finds
CPU jobs that spend more than 5 % of the steady steps in the compiler of torch: tracing, lowering, generating code. At
least three steps compile.

## Why it costs time
A guard of the compiled code failed: another shape, another Python number, another object. The function is then compiled
once more, which takes half a second and more, and after eight times it is no longer compiled at all.

## What to do
See which guard fails: `TORCH_LOGS=recompiles`. Mark the size that changes as dynamic, pad batches to few sizes, or pass
numbers as tensors.

## How the gain is predicted
The share of samples in the compiler times the mean step: 0.7 to 1.4 times of it. A new compilation is rare and long, so
that few samples tell little about its mean.

## When it is wrong
The first steps of each shape compile by design. A run of few steps holds little else; record more of them.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.lib.compiler_frames import COMPILER, COMPILER_WAITS
from stepscope.analyses.lib.line_places import STEP, line_place
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.analyses.steps.lib.samples import steady_samples
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run, stack
from stepscope.core.synth import Synth
from stepscope.models.called_code import called_example

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: a smaller gain drowns in the noise between two runs
MIN_SAMPLES = 5  # fewer samples name no line
MIN_STEPS = 3  # that compile: one or two are the first ones of another shape, such as the last batch of an epoch
PLACES = 3
_ADVICE = (
    Advice(
        text="Compile for sizes that change",
        code="model = torch.compile(model, dynamic=True)",
    ),
    Advice(
        text="Or name the dimension that changes",
        code="torch._dynamo.mark_dynamic(inputs, 1)  # here the second one, before the first call",
    ),
    Advice(text="See which guard fails", code="TORCH_LOGS=recompiles python train.py", language="shell"),
)


def check(run: Run) -> Iterator[Finding]:
    if has_gpu(run):
        return
    means = dict(enough_steps(run).group_by("rank").agg(pl.col("duration").mean()).iter_rows())
    compiled = run.per_rank(_compiled, stack)
    rows = [(compiled.filter(rank=rank), step, rank) for rank, step in sorted(means.items())]
    found = [(_time(own), step, rank, own) for own, step, rank in rows if _again(own)]
    slow = [row for row in found if row[0] >= MIN_SHARE]
    if slow:
        share, step, _, own = max(slow, key=lambda row: row[0])
        yield _finding(share, step, own, tuple(row[2] for row in slow))


def _compiled(run: Run) -> pl.DataFrame:
    """Weight and number of the samples in the compiler by line; `whole` is the weight of all of the rank, `steps` are
    those that compile."""
    samples = steady_samples(run).filter(pl.col("phase") != "data_wait")
    samples = samples.with_columns(whole=pl.col("weight").sum().over("rank")).filter(_compiles())
    samples = samples.with_columns(steps=pl.col("step").n_unique().over("rank"))
    keys = ["rank", "file", "line", "function", "text", "whole", "steps"]
    return samples.group_by(keys, maintain_order=True).agg(pl.col("weight").sum(), pl.len())


def _again(own: pl.DataFrame) -> bool:
    return own.height > 0 and own["len"].sum() >= MIN_SAMPLES and own["steps"][0] >= MIN_STEPS


def _compiles() -> pl.Expr:
    """Whether the compiler is among the library frames: its callback, its modules, or generated code being loaded."""
    frames = pl.concat_str(
        "call", pl.col("between").cast(pl.List(pl.String)).list.join("\n"), "leaf", separator="\n", ignore_nulls=True
    )
    return (frames.str.contains(COMPILER) | frames.str.contains(COMPILER_WAITS)).fill_null(False)


def _time(own: pl.DataFrame) -> float:
    """The part of the samples' time in the compiler."""
    return float(own["weight"].sum()) / max(int(own["whole"][0]), 1)


def _finding(share: float, step: float, own: pl.DataFrame, ranks: tuple[int, ...]) -> Finding:
    lines = own.group_by("file", "line", "function", "text").agg(pl.col("weight").sum())
    longest = lines.drop_nulls("file").sort("weight", "file", "line", descending=[True, False, False]).head(PLACES)
    whole = max(int(own["weight"].sum()), 1)
    return Finding(
        title=Title(
            "torch.compile compiles again in steady steps: {} per step ({})",
            (Value(share * step, "ns"), Value(share, "ratio")),
        ),
        cause="configuration",
        evidence=(
            Evidence(label="compiling per step", value=share * step, unit="ns", source="lines", share=share),
            Evidence(label="samples of these lines", value=int(own["len"].sum()), unit="count", source="lines"),
        ),
        gain=Gain(
            low_ns=int(0.7 * share * step),
            high_ns=int(min(1.4 * share, 1 - (1 - share) / 2) * step),  # half of the other time stays at least
            step_ns=int(step),
            basis="sampled time in the compiler; other code gets faster, too",
            confidence="structural",
            pool="host",
        ),
        advice=_ADVICE,
        ranks=ranks,
        where=tuple(line_place(row, share * row["weight"] / whole, STEP) for row in longest.iter_rows(named=True)),
    )


def example(synth: Synth, fixed: bool) -> None:
    called_example(
        synth, fixed, text="scores = compiled(pictures, step)", expression="compiled(pictures, step)",
        call="torch/_dynamo/eval_frame.py:1000 compile_wrapper", leaf="torch/_dynamo/symbolic_convert.py:1300 step",
    )  # fmt: skip


RULE = Rule(check=check, example=example, explains="periodic-stall")
