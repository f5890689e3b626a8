"""What of the input could not be used, or was repaired, how often and why."""

import polars as pl

from stepscope.core.report import Block, Section, Table, Text, Value
from stepscope.core.run import Run
from stepscope.report.sections import Columns, many

__all__ = ["SECTION"]

_SHOWN = 20  # a folder of many ranks repeats the same few reasons


def build(run: Run) -> list[Block]:
    table = run.optional("skipped").sort("count", descending=True, maintain_order=True)
    if table.is_empty():
        return []
    columns: Columns = (("source", None), ("reason", None), ("count", "count"))
    blocks: list[Block] = [
        Table("", columns, tuple(table.select("source", "reason", "count").head(_SHOWN).iter_rows()))
    ]
    if table.height > _SHOWN:
        rest = table.slice(_SHOWN).select(pl.col("count").sum()).item()
        rows = table.height - _SHOWN
        blocks.append(Text(f"And {{}} more, in {many(rows, 'row')}.", (Value(rest, "count"), Value(rows, "count"))))
    return blocks


SECTION = Section(title="Skipped or repaired input", order=120, group="quality", build=build)
