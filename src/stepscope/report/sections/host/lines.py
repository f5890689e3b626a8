"""The lines of the user's own code that take most of a step, by phase, from samples of the running job."""

import polars as pl

from stepscope.analyses.host.lines import lines
from stepscope.core.report import Block, Section
from stepscope.core.run import Run
from stepscope.report.sections import excerpt

__all__ = ["SECTION"]

_SHOWN = 10
_HEADINGS = {
    "rank": "rank", "phase": "phase", "place": "line", "text": "code", "call": "calls into", "time": "mean per step",
    "share": "share of step",
}  # fmt: skip


def build(run: Run) -> list[Block]:
    place = pl.format("{}:{}", pl.col("file").fill_null("?"), pl.col("line").cast(pl.String).fill_null("?"))
    table = lines(run).with_columns(place.alias("place")).sort("time", descending=True, maintain_order=True)
    return excerpt("", lines, table, _HEADINGS, limit=_SHOWN, name="lines")


SECTION = Section(title="Lines of your code", order=100, group="input", build=build)
