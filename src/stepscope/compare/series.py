"""The steps of a run as one series: the times of consecutive steps, where each went, and how many samples it took.

A step of a job of several ranks is the mean over the ranks that have it; times are ns. Untraced steps are those that
averages are from; traced ones are kept beside them, for a comparison with a run of which there is a trace only.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.trace_phases import PHASES
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.analyses.steps.steps import steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["Division", "Series", "divided", "series_of"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """A whole in ns and its parts, which add up to it exactly; None for a part that the source does not show."""

    whole: int
    parts: Mapping[str, int | None]

    def __post_init__(self) -> None:
        assert sum(part or 0 for part in self.parts.values()) == self.whole


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """Steps in their order, never none. `samples` are those of one rank; None where they were not counted.

    `clocks` are the clocks that timed them; `left_out` counts the other steps of the longest rank.
    """

    times: Floats
    samples: Floats | None
    phases: Division
    clocks: tuple[str, ...]
    traced: bool
    left_out: int


def series_of(run: Run) -> tuple[Series | None, Series | None]:
    """The untraced and the traced steps of a run; None where it has none."""
    try:
        everything = steps(run)
        steady = steady_steps(run)
    except MissingData:
        return None, None
    is_traced = pl.col("tags").list.contains("traced")
    count = int(everything.group_by("rank").len()["len"].max())  # type: ignore[arg-type]
    untraced = steady.filter(~is_traced & ~pl.col("tags").list.contains("tracing"))
    return _series(untraced, count, traced=False), _series(everything.filter(is_traced), count, traced=True)


def divided(whole: float, parts: Mapping[str, float | None]) -> Division:
    """Whole ns for parts that add up to `whole` but for rounding: what rounding leaves goes to the largest rests."""
    known = {name: part for name, part in parts.items() if part is not None}
    floors = {name: int(np.floor(part)) for name, part in known.items()}
    missing = round(whole) - sum(floors.values())
    by_rest = sorted(known, key=lambda name: floors[name] - known[name])
    assert 0 <= missing <= len(by_rest), f"the parts of {whole} do not add up to it"
    rounded = {name: floors[name] + (name in by_rest[:missing]) for name in known}
    return Division(whole=round(whole), parts={name: rounded.get(name) for name in parts})


def _series(table: pl.DataFrame, count: int, *, traced: bool) -> Series | None:
    table = table.filter(pl.col("duration") > 0)
    if table.is_empty():
        return None
    by_step = table.group_by("step").agg(
        pl.col("duration", *PHASES[1:]).mean(),
        pl.col("data_wait").fill_null(0).mean(),
        pl.when(pl.col("samples").is_not_null().all()).then(pl.col("samples").mean()).alias("samples"),
        pl.col("start").min(),
    ).sort("step", "start")  # fmt: skip
    means = by_step.select(pl.col("duration", *PHASES).mean()).row(0, named=True)
    if not table["data_wait"].count():
        means["data_wait"] = None
    return Series(
        times=by_step["duration"].to_numpy().astype(np.float64),
        samples=None if by_step["samples"].null_count() else by_step["samples"].to_numpy().astype(np.float64),
        phases=divided(means["duration"], {name: means[name] for name in PHASES}),
        clocks=tuple(table["clock"].drop_nulls().unique().sort()),
        traced=traced,
        left_out=count - by_step.height,
    )
