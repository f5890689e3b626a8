"""How long each step took on each rank: a slow rank is a row, a slow step a column."""

import polars as pl

from stepscope.analyses.steps.steps import steps
from stepscope.core.report import Block, Heatmap, Section
from stepscope.core.run import Run

__all__ = ["SECTION"]

_MOST = 200  # columns of the map: of more steps each is the mean of several
_RANKS = 128  # rows that a screen still shows


def build(run: Run) -> list[Block]:
    table = steps(run).select("rank", "step", "duration").filter(pl.col("rank").is_not_null())
    ranks = table["rank"].unique().sort().head(_RANKS)
    if len(ranks) < 2:
        return []  # the steps of one rank are a section of their own
    table = table.filter(pl.col("rank").is_in(ranks.implode()))
    low, high = table.select(low=pl.col("step").min(), high=pl.col("step").max()).row(0)
    size = -(-(high - low + 1) // _MOST)
    part = (pl.col("step") - low) // size * size + low
    cells = table.group_by("rank", part.alias("step")).agg(pl.col("duration").mean().round().cast(pl.Int64))
    xs = cells["step"].unique().sort().to_list()
    values = {(rank, step): duration for rank, step, duration in cells.iter_rows()}
    rows = tuple(tuple(values.get((rank, step)) for step in xs) for rank in ranks)
    title = "Time of each step" if size == 1 else f"Mean time of {size} steps at a time"
    return [Heatmap(title, "step", "rank", "ns", tuple(xs), tuple(ranks.to_list()), rows)]


SECTION = Section(title="Steps of the ranks", order=74, group="distributed", build=build)
