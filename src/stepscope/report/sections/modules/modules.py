"""The branches of the tree of modules that take most time, in forward and in backward."""

import polars as pl

from stepscope.analyses.modules.modules import modules
from stepscope.core.report import Block, Section, Table, Text, Value
from stepscope.core.run import Run
from stepscope.report.sections import Columns, literal

__all__ = ["SECTION"]

_SHOWN = 10
_PASSES = ("forward", "recompute", "backward")


def build(run: Run) -> list[Block]:
    table = modules(run).drop_nulls("module")
    measure = "device_total" if (table["device_total"].fill_null(0) > 0).any() else "host_total"
    totals = table.group_by("rank", "module", maintain_order=True).agg(time=pl.col(measure).sum())
    slowest = totals.sort("time", "rank", descending=[True, False])["rank"][0]
    of_rank = totals.filter(pl.col("rank") == slowest)
    branches = of_rank.filter(pl.col("time").rank("ordinal", descending=True) <= _SHOWN)  # in order of the tree
    shown = table.filter(pl.col("rank") == slowest, pl.col("module").is_in(branches["module"].implode()))
    blocks: list[Block] = [_table(branches, shown, measure)]
    left = of_rank.height - branches.height
    if left:
        blocks.append(Text("{} more: `stepscope show modules PATH`", (Value(left, "count"),)))
    own = measure.replace("total", "self")
    heaviest = of_rank.join(table.group_by("rank", "module").agg(pl.col(own).sum()), on=("rank", "module"))
    inside = literal(heaviest.sort(own, "module", descending=[True, False])["module"][0])
    blocks.append(Text(f"What runs inside one: `stepscope show module_operators PATH --where module={inside}`"))
    if table["rank"].n_unique() > 1:
        blocks.insert(0, Text("Rank {}, whose modules take longest.", (Value(slowest, None),)))
    return blocks


def _table(branches: pl.DataFrame, shown: pl.DataFrame, measure: str) -> Table:
    """A row per module; a column of times per pass that was recorded."""
    passes = [name for name in _PASSES if name in shown["pass"]]
    of_pass = [shown.filter(pl.col("pass") == name).select("module", measure, "calls") for name in passes]
    rows = branches.select("module")
    for name, part in zip(passes, of_pass, strict=True):
        rows = rows.join(
            part.select("module", pl.col(measure).alias(name)), on="module", how="left", maintain_order="left"
        )
    rows = rows.join(
        shown.group_by("module").agg(pl.col("calls").max()), on="module", how="left", maintain_order="left"
    )
    on = "device" if measure == "device_total" else "host"
    columns: Columns = (("module", None), ("calls", "count"), *((f"{name} on the {on}", "ns") for name in passes))
    return Table("", columns, tuple(rows.select("module", "calls", *passes).iter_rows()), source="modules")


SECTION = Section(title="Modules", order=85, group="modules", build=build)
