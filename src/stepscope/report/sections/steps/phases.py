"""Time of each phase of a step on the CPU and, where there is one, on the GPU."""

import polars as pl

from stepscope.analyses.steps.phases import phases
from stepscope.core.report import Block, Section, Text
from stepscope.core.run import Run
from stepscope.report.sections import RANKS_SHOWN, excerpt
from stepscope.report.step_bar import PHASES

__all__ = ["SECTION"]

_PHASES = 5  # rows of each rank
_NAMES = dict(zip(("Dataloader", "Forward", "Backward", "Optimization", "Others"), PHASES.values(), strict=True))
_HIDDEN = "Data wait includes waits while the GPU works. The verdict leaves these out."
_SPREAD = {"total": "total", "min": "min", "avg": "mean", "max": "max", "ratio": "share"}


def build(run: Run) -> list[Block]:
    table = phases(run)
    if not table.filter((pl.col("phase") != "Others") & (pl.col("calls") > 0)).height:
        return []  # such as inference: one row that repeats the step tells nothing
    table = table.with_columns(pl.col("phase").replace(_NAMES))
    blocks = _side("On the CPU", "cpu", table)
    if table["gpu_total"].is_not_null().any():
        launched = pl.col("gpu_total") > 0  # a phase that launched nothing has no time there: not one of zero
        blocks += [Text(_HIDDEN)] if (table["phase"] == PHASES["data_wait"]).any() else []
        gpu = [f"gpu_{name}" for name in _SPREAD]
        blocks += _side("On the GPU", "gpu", table.with_columns(pl.when(launched).then(pl.col(gpu))))
    return blocks


def _side(title: str, side: str, table: pl.DataFrame) -> list[Block]:
    ids = {"rank": "rank", "phase": "phase", "calls": "steps"}
    headings = {**ids, **{f"{side}_{name}": text for name, text in _SPREAD.items()}}
    return excerpt(title, phases, table, headings, limit=RANKS_SHOWN * _PHASES, name="phases")


SECTION = Section(title="Phases", order=50, build=build)
