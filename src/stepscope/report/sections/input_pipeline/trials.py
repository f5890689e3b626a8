"""What the trials of a tuning measured: every setting, its mean step and the interval that it lies in."""

import polars as pl

from stepscope.core.report import Block, Section, Table, Text
from stepscope.core.run import Run
from stepscope.core.schema import Unit
from stepscope.report.sections import literal

__all__ = ["SECTION"]

_COLUMNS: tuple[tuple[str, Unit | None], ...] = (
    ("setting", None), ("mean step", "ns"), ("at least", "ns"), ("at most", "ns"), ("data wait", "ratio"),
    ("trials", "count"), ("steps", "count"),
)  # fmt: skip


def build(run: Run) -> list[Block]:
    trials = run.optional("trials")
    if trials.is_empty():
        return []
    measured = trials.drop_nulls("step").sort("step")
    rows = measured.select("setting", "step", "low", "high", "data_wait", "trials", "steps").rows()
    left_out = trials.filter(pl.col("step").is_null()).select("setting", "left_out").rows()
    return [
        Table("", _COLUMNS, tuple(rows)),
        Text("Measured by `stepscope tune`, the fastest first; at least and at most: 95 % interval."),
        *(Text(f"{literal(setting)}: {literal(why or 'not measured', 400)}.") for setting, why in left_out),
    ]


SECTION = Section(title="Measured trials", order=46, group="input", build=build)
