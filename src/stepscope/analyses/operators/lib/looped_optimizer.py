"""An optimizer that updates its parameters one by one from Python.

Torch picks the loop by itself on a CPU; on a GPU only with foreach=False. The loop costs Python some 6 (SGD) to 30 µs
(Adam) per parameter, whatever its size, so it matters for many small parameters.
"""

from dataclasses import dataclass

import polars as pl

from stepscope.analyses.lib.line_places import STEP, line_place
from stepscope.analyses.lib.sample_work import gpu_ranks
from stepscope.analyses.steps.lib.samples import steady_samples
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.finding import Place
from stepscope.core.run import Run, chain

__all__ = ["LoopedOptimizer", "looped_optimizers"]

MANY = 100  # parameters: the loop over fewer takes Python no more than a few milliseconds
SMALL = 16_384  # mean elements of a parameter; above it reading and writing them takes longer than Python does
FUSABLE = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})  # with fused=True on a CPU and on a GPU
MIN_SAMPLES = 5  # of the optimizer phase, before what they show is believed


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopedOptimizer:
    """The optimizer phase of one rank: mean time per steady step and that step, in ns, and what loops."""

    rank: int
    name: str
    parameters: int
    elements: int
    fusable: bool
    time: float
    step: float
    places: tuple[Place, ...]


def looped_optimizers(run: Run) -> tuple[LoopedOptimizer, ...]:
    """Ranks whose optimizer loops over many small parameters. Raises MissingData if no optimizer was described."""
    return run.per_rank(_looped_optimizers, chain)


def _looped_optimizers(run: Run) -> tuple[LoopedOptimizer, ...]:
    facts = run.table("optimizers", how="run it with `stepscope run -- COMMAND`")
    told = pl.col("foreach").eq(False)
    looping = pl.when(pl.col("rank").is_in(gpu_ranks(run))).then(told).otherwise(told.fill_null(True))
    looped = facts.filter(
        pl.col("module").fill_null("").str.starts_with("torch.optim")
        & pl.col("fused").fill_null(False).not_()
        & looping
        & (pl.col("parameters") >= MANY)
        & (pl.col("elements") <= SMALL * pl.col("parameters"))
    )
    largest = looped.sort("parameters", descending=True).unique("rank", keep="first", maintain_order=True)
    means = steady_steps(run).group_by("rank").agg(pl.col("optimizer", "duration").mean())
    rows = largest.join(means, on="rank").sort("rank").iter_rows(named=True)
    return tuple(found for row in rows if (found := _of_rank(run, row)) is not None)


def _of_rank(run: Run, row: dict[str, object]) -> LoopedOptimizer | None:
    try:
        own = (pl.col("rank") == row["rank"]) & (pl.col("phase") == "optimizer") & (pl.col("work") == "model")
        samples = steady_samples(run).filter(own)
    except MissingData:
        samples = pl.DataFrame(schema={"leaf": pl.String})
    together = samples.filter(pl.col("leaf").str.contains(r" _(multi_tensor|fused)_")).height
    if samples.height >= MIN_SAMPLES and together * 2 > samples.height:
        return None  # torch takes another way than the options say
    duration, optimizer = float(str(row["duration"])), float(str(row["optimizer"]))
    return LoopedOptimizer(
        rank=int(str(row["rank"])),
        name=str(row["name"]),
        parameters=int(str(row["parameters"])),
        elements=int(str(row["elements"])),
        fusable=row["name"] in FUSABLE,
        time=optimizer,
        step=duration,
        places=_places(samples, optimizer / duration),
    )


def _places(samples: pl.DataFrame, share: float) -> tuple[Place, ...]:
    """The line that calls the optimizer, the user's innermost frame in most samples; it takes `share` of the step."""
    if samples.height < MIN_SAMPLES:
        return ()
    lines = samples.group_by("file", "line", "function").agg(pl.col("weight").sum(), pl.col("text").first())
    rows = lines.sort(["weight", "line"], descending=[True, False]).head(1).iter_rows(named=True)
    return tuple(line_place(row, share, STEP) for row in rows if row["file"])
