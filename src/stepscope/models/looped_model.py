"""A model, or a part of it, that a Python loop calls many times in a step."""

from collections import Counter
from collections.abc import Iterator, Sequence

import polars as pl

from stepscope.analyses.lib.line_places import STEP, line_place
from stepscope.analyses.lib.loop_headers import loop_header
from stepscope.analyses.lib.source_texts import SAMPLED_FRAME, source_line
from stepscope.analyses.operators.lib.weight_uses import WeightUses
from stepscope.analyses.steps.lib.samples import steady_samples
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Title
from stepscope.core.run import Run, stack
from stepscope.core.synth import Synth

__all__ = ["MANY", "MIN_SHARE", "loop_example", "loop_finding"]

MANY = 8
"""Uses of each weight in a step: a model that shares layers, or is called for two views, uses them a few times."""

MIN_SHARE = 0.10
"""Of the step in short operators and between them: half of it is the least that is promised."""

PLACES = 3


def loop_finding(
    run: Run,
    worst: WeightUses,
    title: Title,
    advice: tuple[Advice, ...],
    ranks: tuple[int, ...],
    part: tuple[float, float] = (0.6, 1.2),
) -> Finding:
    """What is said of such a loop but for title and advice: short operators are called once instead of `uses` times.

    `part` is what one call saves of that at least and at most.
    """
    saved = worst.short * (1 - 1 / worst.uses)
    return Finding(
        title=title,
        cause="model",
        evidence=(
            Evidence(
                label="short operators per step", value=worst.short, unit="ns", source="operators",
                share=worst.short / worst.step,
            ),
        ),
        gain=Gain(
            low_ns=int(part[0] * saved),
            high_ns=int(min(part[1] * saved, worst.step)),
            step_ns=int(worst.step),
            basis="short operators of all passes but one; long ones get shorter, too",
            confidence="structural",
        ),
        advice=advice,
        ranks=ranks,
        where=_places(run, worst.rank),
    )  # fmt: skip


def _places(run: Run, rank: int) -> tuple[Place, ...]:
    """The lines inside a loop from which forward is called most."""
    try:
        stacks = run.per_rank(_forward_stacks, stack).filter(rank=rank)
    except MissingData:
        return ()
    weights = Counter[tuple[str, int, str]]()
    whole = int(stacks["whole"].max() or 0)  # type: ignore[arg-type]
    for frames, weight in stacks.select("frames", "weight").iter_rows():
        line = next((line for line in _outward(frames) if loop_header(run, *line[:2])), None)
        if line is not None:
            weights[line] += weight
    rows = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:PLACES]
    return tuple(_place(run, *line, weight / whole) for line, weight in rows)


def _forward_stacks(run: Run) -> pl.DataFrame:
    """Weight of the samples of each stack in forward; `whole` is the weight of all of the rank."""
    samples = steady_samples(run).with_columns(whole=pl.col("weight").sum().over("rank"))
    forward = samples.filter(pl.col("phase") == "forward").drop_nulls("frames")
    return forward.group_by("rank", "frames", "whole", maintain_order=True).agg(pl.col("weight").sum())


def _outward(frames: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """File, line and function of frames, the innermost, which is the last, first."""
    for frame in reversed(frames):
        match = SAMPLED_FRAME.fullmatch(frame)
        if match:
            yield match["file"], int(match["line"]), match["function"]


def _place(run: Run, file: str, line: int, function: str, share: float) -> Place:
    return line_place(
        {"file": file, "line": line, "function": function, "text": source_line(run, file, line)}, share, STEP
    )


def loop_example(synth: Synth, fixed: bool, *cells: str, left: float = 0) -> None:
    """A layer of a weight and a bias that each step uses 20 times, for 2 ms each; fixed, once, with `left` ms more."""
    uses = 1 if fixed else 20
    length = 20 + 2 * uses + (left if fixed else 0)
    synth.add("sources", file="/me/train.py", line=8, text="for picture in pictures:")
    synth.add("sources", file="/me/train.py", line=9, text="    scores = model(picture)")
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        for use in range(uses):
            at = start + 2 * use
            synth.host("aten::addmm", "operator", at, at + 0.001)
            for cell in cells:
                synth.host(cell, "operator", at + 1, at + 1.001)
        back = start + 2 * uses
        for use in range(uses):
            name = "autograd::engine::evaluate_function: AddmmBackward0"
            synth.host(name, "operator", back + 0.1 * use, back + 0.1 * use + 0.001, forward_thread=1, sequence=use)
        for number in range(2):
            name = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
            at = back + 3 + number
            synth.host(name, "operator", at, at + 0.001, forward_thread=1)
        synth.host("Optimizer.step#SGD.step", "annotation", start + length - 10, start + length)
