"""One trial of one setting: what the run folder of a short run says about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.input_pipeline.lib.loader_facts import MOST_WORKERS
from stepscope.analyses.input_pipeline.lib.loader_overrides import overrides_of
from stepscope.analyses.lib.load_samples import samples_within
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.finding import Place
from stepscope.core.run import Run
from stepscope.experiments.initial_workers import simulated_workers

__all__ = ["AS_IT_IS", "Loader", "Setting", "Trial", "TrialResult", "trial_result", "warm_up"]

WARM_UP = 20  # steps: caches, clocks and autotuning; and a loader starts with a store that it then lives off

_FILLINGS = 2  # times that the store of ready batches must have been used up before the pace is that of the workers
_KEPT = 10  # steps that must be left after it: of a shorter run only the first third is dropped
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Setting:
    """What the loaders are given: values by name, as pairs; none: the script as it is."""

    values: tuple[tuple[str, int | bool | str], ...] = ()

    def get(self, name: str) -> int | bool | str | None:
        """The value of a name, None where it is the script's own."""
        return dict(self.values).get(name)

    def with_(self, name: str, value: int | bool | str) -> "Setting":
        """The same with another value."""
        return Setting((*(pair for pair in self.values if pair[0] != name), (name, value)))

    def text(self) -> str:
        """As keywords of DataLoader."""
        return ", ".join(f"{name}={value}" for name, value in self.values) or "as it is"


AS_IT_IS = Setting()
"""The script's own settings: what every other is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """The loader that trains: the settings it had, and the line that makes it, or the library that does."""

    dataset: str | None
    workers: int
    prefetch: int | None
    persistent: bool
    pinned: bool
    place: Place | None
    made_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrialResult:
    """A trial. `times` are ns of consecutive steps after the warm-up; `wait` is the mean ns in them for the next batch.

    `refused` says why the settings were not given, `failed` why there are no steps; of both only one is not None, and
    there are no times then. `epochs` counts the ends of epochs among the steps. `initial_workers` is how many workers
    the simulation of its loader asks for; None: not asked, or it does not describe this job. `others` are the cores
    that other programs used meanwhile (mean), None if the trial was too short to tell.
    """

    times: Floats
    wait: float | None = None
    loader: Loader | None = None
    epochs: int = 0
    ranks: int = 1
    gpu: bool = False
    wall_s: float = 0.0
    refused: str | None = None
    failed: str | None = None
    initial_workers: int | None = None
    others: float | None = None


class Trial(Protocol):
    """Runs the job with a setting for at most so many seconds."""

    def __call__(self, setting: Setting, seconds: float) -> TrialResult:
        """The trial. Never raises for a job that fails."""


def warm_up(workers: int, prefetch: int | None) -> int:
    """Steps at the beginning that say nothing about the pace."""
    return max(WARM_UP, _FILLINGS * workers * (prefetch or 0))


def trial_result(run: Run, wall_s: float, *, simulated: bool = False) -> TrialResult:
    """What a run says, and with `simulated` how many workers it asks for, if its loader was recorded.

    A run without steps, or without a loader that trains, has failed.
    """
    refused = next((one.refused for one in overrides_of(run) if one.refused is not None), None)
    if refused is not None:
        return TrialResult(times=np.empty(0), refused=refused, wall_s=wall_s)
    loader = _loader(run)
    try:
        steady = steady_steps(run)
    except MissingData:
        steady = None
    if steady is None or loader is None:
        why = "no DataLoader of torch was seen to train" if steady is not None else "it made no training steps"
        return TrialResult(times=np.empty(0), failed=why, wall_s=wall_s)
    last = int(steady["step"].max())  # type: ignore[arg-type]
    first = warm_up(loader.workers, loader.prefetch)
    if last + 1 - first < _KEPT:
        first = last // 3
    kept = steady.filter((pl.col("step") >= first) & ~pl.col("tags").list.contains("evaluation"))
    by_step = kept.group_by("step").agg(pl.col("duration", "data_wait").mean()).sort("step")
    return TrialResult(
        times=by_step["duration"].to_numpy().astype(np.float64),
        wait=_mean(by_step["data_wait"]),
        loader=loader,
        epochs=int(kept["tags"].list.contains("epoch-end").sum()),
        ranks=kept["rank"].n_unique(),
        gpu=run.rows("devices") > 0,
        wall_s=wall_s,
        initial_workers=simulated_workers(run, range(MOST_WORKERS + 1)) if simulated else None,
        others=_others(run, kept),
    )


def _others(run: Run, steps: pl.DataFrame) -> float | None:
    first, last = (int(steps.select(end).item()) for end in (pl.col("start").min(), pl.col("end").max()))
    return _mean(samples_within(run, "other CPU", first, last)["value"])


def _loader(run: Run) -> Loader | None:
    rows = run.optional("loaders").filter(pl.col("train").fill_null(False))
    row: Mapping[str, Any] | None = next(rows.iter_rows(named=True), None)
    if row is None or row["num_workers"] is None:
        return None
    made = row["made_file"] is not None and row["made_line"] is not None
    return Loader(
        dataset=row["dataset"],
        workers=row["num_workers"],
        prefetch=row["prefetch_factor"],
        persistent=bool(row["persistent_workers"]),
        pinned=bool(row["pin_memory"]),
        place=Place(file=row["made_file"], line=row["made_line"], symbol="DataLoader") if made else None,
        made_by=row["made_by"],
    )


def _mean(values: pl.Series) -> float | None:
    mean = values.mean()
    return float(mean) if isinstance(mean, int | float) else None
