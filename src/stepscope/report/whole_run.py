"""The wall time of the whole run on the rank that the report is about, and what its findings could save of it."""

from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound.run_time import run_time
from stepscope.core.run import Run
from stepscope.report.diagnose import diagnose

__all__ = ["Saving", "savings", "whole_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What finding `number`, from 1, could save of a whole run, ns."""

    number: int
    low: int
    high: int


def whole_run(run: Run) -> pl.DataFrame:
    """The parts of the rank that the verdict is of, else of the first one. Raises MissingData as `run_time`."""
    table, rank = run_time(run), diagnose(run).verdict.rank
    ranks = table["rank"].unique().sort()
    return table.filter(pl.col("rank") == (rank if rank in ranks else ranks[0]))


def savings(run: Run) -> list[Saving]:
    """What each finding with a gain could save of all steps but those of warm-up; findings may save the same time."""
    rows = whole_run(run)
    rank, steps = rows.item(0, "rank"), int(rows.filter(pl.col("part") != "warm-up")["steps"].max() or 0)  # type: ignore[arg-type]
    numbered = ((number, block.finding) for number, block in enumerate(diagnose(run).findings, 1))
    return [
        Saving(number=number, low=finding.gain.low_ns * steps, high=finding.gain.high_ns * steps)
        for number, finding in numbered
        if finding.gain and (not finding.ranks or rank in finding.ranks)
    ]
