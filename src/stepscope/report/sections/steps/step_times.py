"""Each step, by phase, in the order in which they ran: warm-up, stalls and drift are seen at a glance."""

import polars as pl

from stepscope.analyses.steps.steps import steps, weight_of
from stepscope.core.report import Block, Line, Lines, Section, Text, Value
from stepscope.core.run import Run

__all__ = ["SECTION"]

_PHASES = {
    "data_wait": "data wait",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "other": "other",
}
_MOST = 400  # bars: a screen has a few pixels for each; of more steps each bar is the mean of several


def build(run: Run) -> list[Block]:
    table = steps(run)
    first = table["rank"].min()
    mine = table.filter(pl.col("rank") == first)
    if mine.height <= 1:
        return []  # the summary shows it
    size = -(-mine.height // _MOST)
    bars = mine.group_by(pl.int_range(pl.len()) // size, maintain_order=True).agg(
        pl.col("step").first(), pl.col("duration", *_PHASES).mean().round().cast(pl.Int64)
    )
    title = "Each step" if size == 1 else "Steps, each bar the mean of several"
    if table["rank"].n_unique() > 1:
        title += f", rank {mine.item(0, 'rank')}"
    lines = Lines(title, "step", None, "ns", _lines(bars), stacked=True)
    more = "One bar is the mean of {} steps in a row; {} steps in all."
    return (
        [lines, Text(more, (Value(size * weight_of(mine), "count"), Value(int(mine["weight"].sum()), "count")))]
        if size > 1
        else [lines]
    )


def _lines(bars: pl.DataFrame) -> tuple[Line, ...]:
    """The phases that were recorded; the whole step where none was."""
    known = {name: label for name, label in _PHASES.items() if bars[name].null_count() < bars.height}
    if set(known) <= {"other"}:
        known = {"duration": "step"}
    return tuple(Line(label, tuple(bars.select("step", name).iter_rows())) for name, label in known.items())


SECTION = Section(title="Step times", order=42, build=build)
