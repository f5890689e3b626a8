"""Data wait, step time and throughput, as in a timer-only profile."""

import polars as pl

from stepscope.analyses.steps.timer import timer
from stepscope.core.report import Block, Section
from stepscope.core.run import Run
from stepscope.report.sections import RANKS_SHOWN, Columns, ranked

__all__ = ["SECTION"]

_SPREAD = ("min", "avg", "max")
_COSTS: dict[str, str] = {"reader_cost": "data wait", "batch_cost": "step"}


def build(run: Run) -> list[Block]:
    table = timer(run).head(RANKS_SHOWN)
    costs = tuple(
        (row["rank"], label, *(row[f"{name}_{spread}"] for spread in _SPREAD))
        for row in table.iter_rows(named=True)
        for name, label in _COSTS.items()
    )
    spread: Columns = (("min", "ns"), ("mean", "ns"), ("max", "ns"))
    blocks: list[Block] = [ranked("Data wait and step", (("rank", None), ("time", None), *spread), costs)]
    return [*blocks, *_throughput(table)]


def _throughput(table: pl.DataFrame) -> list[Block]:
    if table["ips_avg"].null_count() == table.height:
        return []  # the samples of a batch were not counted
    columns: Columns = (
        ("rank", None), ("steps", "count"), ("left out", "count"), ("min samples/s", None), ("mean samples/s", None),
        ("max samples/s", None), ("data wait share", "ratio"),
    )  # fmt: skip
    names = ["rank", "steps", "left_out", *(f"ips_{spread}" for spread in _SPREAD), "reader_ratio"]
    return [ranked("Throughput", columns, tuple(table.select(names).iter_rows()))]


SECTION = Section(title="Step time and throughput", order=40, build=build)
