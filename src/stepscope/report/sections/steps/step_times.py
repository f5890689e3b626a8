"""Each step, by phase, in the order in which they ran: warm-up, stalls and drift are seen at a glance."""

import polars as pl

from stepscope.analyses.steps.steady_steps import marks_steps, steady_steps
from stepscope.analyses.steps.steps import steps, weight_of
from stepscope.core.report import Block, Line, Lines, Section, Text, Value
from stepscope.core.run import Run
from stepscope.report.diagnose import diagnose
from stepscope.report.sections import many
from stepscope.report.step_bar import PHASES, two_clocks

__all__ = ["SECTION"]

_MOST = 400  # bars: a screen has a few pixels for each; of more steps each bar is the mean of several


def build(run: Run) -> list[Block]:
    table = steps(run)
    mine = table.filter((pl.col("rank") == _judged(run, table)) & ~pl.col("tags").list.contains("empty"))
    if mine.height <= 1:
        return []  # the summary shows it
    return [
        *_bars(mine, several=table["rank"].n_unique() > 1, on_host=bool(two_clocks(run))),
        *(_used(table, steady_steps(run)) if marks_steps(run) else []),
    ]


def _judged(run: Run, table: pl.DataFrame) -> int:
    """The rank that the verdict is of, else the first."""
    ranks: list[int] = table["rank"].unique().sort().to_list()
    rank = diagnose(run).verdict.rank
    return rank if rank in ranks else ranks[0]


def _bars(mine: pl.DataFrame, *, several: bool, on_host: bool) -> list[Block]:
    size = -(-mine.height // _MOST)
    bars = mine.group_by(pl.int_range(pl.len()) // size, maintain_order=True).agg(
        pl.col("step").first(), pl.col("duration", *PHASES).mean().round().cast(pl.Int64)
    )
    together = size * weight_of(mine)
    title = "Each step" if size == 1 else f"Means of {together} steps each"
    if on_host:  # the verdict names another step: the device's
        title = f"{title} on the host"
    if several:
        title += f", rank {mine.item(0, 'rank')}"
    lines = Lines(title, "step", None, "ns", _lines(bars), stacked=True)
    more = "One bar is the mean of {} steps in a row; {} steps in all."
    return (
        [lines, Text(more, (Value(together, "count"), Value(int(mine["weight"].sum()), "count")))]
        if size > 1
        else [lines]
    )


def _lines(bars: pl.DataFrame) -> tuple[Line, ...]:
    """The phases that were recorded; the whole step where none was."""
    known = {name: label for name, label in PHASES.items() if bars[name].null_count() < bars.height}
    if set(known) <= {"other"}:
        known = {"duration": "step"}
    return tuple(Line(label, tuple(bars.select("step", name).iter_rows())) for name, label in known.items())


def _used(recorded: pl.DataFrame, steady: pl.DataFrame) -> list[Block]:
    """Say how many steps the means are over, and why the others were left out; of one step the verdict says all."""
    ranks = recorded["rank"].n_unique()
    if recorded.height == 1:
        return []
    every, used = (int(table["weight"].sum()) for table in (recorded, steady))
    text, values = f"Averages in this report use all {many(every, 'step')}", [Value(every, "count")]
    if used < every:
        text, values = f"Averages outside this chart use {{}} of {many(every, 'step')}", [Value(used, "count"), *values]
    if ranks > 1:
        text, values = f"{text} of {many(ranks, 'rank')}", [*values, Value(ranks, "count")]
    text, values = text + ". Their median is {}", [*values, Value(_median(steady), "ns")]
    reasons = _left_out(recorded.join(steady, on=["rank", "step"], how="anti"))
    if reasons:
        text += ". Left out: " + ", ".join(f"{{}} {reason}" for reason in reasons)
        values += [Value(count, "count") for count in reasons.values()]
    return [Text(f"{text}.", tuple(values))]


def _left_out(left_out: pl.DataFrame) -> dict[str, int]:
    """Steps that averages leave out, by reason."""
    traced = pl.col("tags").list.contains("traced") | pl.col("tags").list.contains("tracing")
    reason = (
        pl.when(pl.col("tags").list.contains("warm-up"))
        .then(pl.lit("warm-up"))
        .when(pl.col("tags").list.contains("empty"))
        .then(pl.lit("empty"))
        .when(traced)
        .then(pl.lit("traced or next to tracing"))
    )
    reasons = left_out.select("weight", reason.otherwise(pl.lit("others")).alias("reason"))
    counts = reasons.group_by("reason").agg(pl.col("weight").sum()).sort("weight", "reason", descending=[True, False])
    return dict(counts.iter_rows())


def _median(steady: pl.DataFrame) -> int:
    return int(steady.select(pl.col("duration").median()).item())


SECTION = Section(title="Step times", order=42, build=build)
