"""What limits the run, one step as a bar, and which steps the averages are from."""

import polars as pl

from stepscope.analyses.steady_steps import steady_steps
from stepscope.analyses.steps import steps
from stepscope.core.errors import MissingData
from stepscope.core.report import Bar, Bars, Block, Section, Text, Value
from stepscope.core.run import Run
from stepscope.diagnose import diagnose

__all__ = ["SECTION"]

_PARTS = {
    "data_wait": "data wait",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "other": "other",
}


def build(run: Run) -> list[Block]:
    blocks: list[Block] = [diagnose(run).verdict]
    try:
        steady = steady_steps(run)
    except MissingData:
        return blocks  # the verdict says why nothing is known
    return [*blocks, _bar(steady), _used(steps(run), steady)]


def _bar(steady: pl.DataFrame) -> Bars:
    means = steady.select(pl.col(list(_PARTS)).mean()).row(0, named=True)
    parts = tuple(Bar(label, means[name]) for name, label in _PARTS.items() if means[name] is not None)
    return Bars("One step, mean", "ns", parts)


def _used(recorded: pl.DataFrame, steady: pl.DataFrame) -> Text:
    """Say how many steps the averages are from, and why the others were left out."""
    all_used = steady.height == recorded.height
    text, values = ("all {} steps", []) if all_used else ("{} of {} steps", [Value(steady.height, "count")])
    text, values = f"Averages over {text}", [*values, Value(recorded.height, "count")]
    ranks = recorded["rank"].n_unique()
    if ranks > 1:
        text, values = text + " of {} ranks", [*values, Value(ranks, "count")]
    text, values = text + "; median {}", [*values, Value(_median(steady), "ns")]
    reasons = _left_out(recorded.join(steady, on=["rank", "step"], how="anti"))
    if reasons:
        text += "; left out: " + ", ".join(f"{{}} {reason}" for reason in reasons)
        values += [Value(count, "count") for count in reasons.values()]
    text += "." if ranks == 1 else ". The verdict is on the rank that limits the job; the bar is the mean of all."
    return Text(text, tuple(values))


def _left_out(left_out: pl.DataFrame) -> dict[str, int]:
    """Steps that averages leave out, by reason."""
    traced = pl.col("tags").list.contains("traced") | pl.col("tags").list.contains("tracing")
    reason = (
        pl.when(pl.col("tags").list.contains("warm-up")).then(pl.lit("warm-up")).when(traced).then(pl.lit("traced"))
    )
    reasons = left_out.select(reason.otherwise(pl.lit("others")).alias("reason"))
    counts = reasons.group_by("reason").len().sort(["len", "reason"], descending=[True, False])
    return dict(counts.iter_rows())


def _median(steady: pl.DataFrame) -> int:
    return int(steady.select(pl.col("duration").median()).item())


SECTION = Section(title="Summary", order=0, build=build)
