"""The lines of the user's own code that take most of a step, by phase, from samples of the running job."""

import polars as pl

from stepscope.analyses.host.lines import lines
from stepscope.core.report import Block, Section
from stepscope.core.run import Run
from stepscope.report.sections import excerpt
from stepscope.report.step_bar import PHASES

__all__ = ["SECTION"]

_SHOWN = 10
_PARTS = 2  # of a path: the file and its folder tell one file of a project from another
_HEADINGS = {
    "rank": "rank", "phase": "phase", "place": "line", "text": "code", "time": "mean per step",
    "share": "share of step",
}  # fmt: skip


def build(run: Run) -> list[Block]:
    file = pl.col("file").fill_null("?").str.split("/").list.tail(_PARTS).list.join("/")
    place = pl.format("{}:{}", file, pl.col("line").cast(pl.String).fill_null("?"))
    table = (
        lines(run)
        .with_columns(place.alias("place"), pl.col("phase").replace(PHASES))
        .group_by("rank", "phase", "place", "text", maintain_order=True)
        .agg(pl.col("time", "share").sum())
        .sort("time", descending=True, maintain_order=True)
    )
    return excerpt("", lines, table, _HEADINGS, limit=_SHOWN, name="lines")


SECTION = Section(title="Lines of your code", order=100, group="input", build=build)
