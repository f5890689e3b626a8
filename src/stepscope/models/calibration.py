"""What a trial of the job measured: training that never waits, beside training as ever (`collect.calibration`)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.load_samples import samples_within
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.models.fetch_parts import Call, calls
from stepscope.models.loader_simulation import WAITED
from stepscope.models.pipeline import FRESH, fetches, threads_of

__all__ = ["COLD_CACHE_SLOWDOWN", "Calibration", "ColdCacheSlowdown", "calibration_of"]

FACT = "calibration"
ERRORS = 1.5  # standard errors on either side: replicas are spread evenly over the range
NEGLIGIBLE = 0.02  # of a step: where touching it takes more, training that is fed does not tell what waiting adds
LEAST = -0.05  # nothing makes a step shorter after a wait: less is an accident
READY = (
    0.04  # of a step: it follows the taking of a batch from a worker, as after a pause of 2 ms; none that is fed does
)
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdCacheSlowdown:
    """By what part a step takes longer after a wait for its batch than with one that is ready: a value, its range."""

    value: float
    low: float
    high: float


_FED = ColdCacheSlowdown(value=0.07, low=0.0, high=0.14)
"""Against steps right after another: with one model, pauses in turn and no loader, steps took 4 % more CPU time after a
pause of 2 ms, 5 to 7 % after 20 ms and 10 to 12 % after 60 ms: caches are cold then, and the core has slept."""

COLD_CACHE_SLOWDOWN = ColdCacheSlowdown(value=_FED.value - READY, low=_FED.low - READY, high=_FED.high - READY)
"""Where no trial was made."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Of a rank: `own` is what a batch takes of training that never waits (ns, wall time, to the end of the device's
    work), where it comes from a worker and is new; `cold_cache_slowdown` what a wait adds. `calls` are those in its
    fetches, all of which are recorded. `device` says that one works; `foreign` are the cores that other programs used,
    0 if nobody watched. `here` is the wall time of a batch that the training process makes itself with its threads,
    None where that was not tried."""

    own: float
    cold_cache_slowdown: ColdCacheSlowdown
    device: bool
    calls: tuple[Call, ...] = ()
    foreign: float = 0.0
    here: float | None = None


def calibration_of(trial: Run, rank: int) -> Calibration:
    """What the run of a trial holds about a rank. Raises MissingData where it measured nothing."""
    fact = _fact(trial, rank)
    rounds = [one for one in fact.get("rounds", ()) if one.get("fed") and one.get("usual")]
    if not rounds:
        raise MissingData(f"trial of rank {rank}", how="train for 100 steps or more, and predict with --calibrate")
    device = bool(fact.get("device"))
    fed = sum(one["fed_ns"] for one in rounds) / sum(len(one["fed"]) for one in rounds)
    first_touch_cost = FRESH * max(one.get("bytes", 0) for one in rounds)
    spins = threads_of(trial, rank) > 1  # while one of its threads waits for a core
    unknown = device or spins or first_touch_cost > NEGLIGIBLE * fed
    return Calibration(
        own=float(fed) if device else float(fed) * (1 + READY) + first_touch_cost,
        cold_cache_slowdown=COLD_CACHE_SLOWDOWN if unknown else _cold_cache_slowdown(rounds),
        device=device,
        calls=calls(trial, rank, fetches(trial, rank)),
        foreign=_foreign(trial),
        here=float(np.mean(fact["here"])) if fact.get("here") else None,
    )


def _fact(trial: Run, rank: int) -> Mapping[str, Any]:
    rows = trial.optional("meta").filter((pl.col("key") == FACT) & pl.col("source").str.contains(f"rank-{rank:05d}."))
    fact = json.loads(rows["value"][-1]) if rows.height else {}
    return fact if isinstance(fact, dict) else {}


def _foreign(trial: Run) -> float:
    """Cores that others used while it trained; where that took less than a second, from its start to its end."""
    samples = trial.optional("system").filter(pl.col("what") == "other CPU")
    began = trial.optional("steps").select(pl.col("start").min()).item() or 0
    trained = samples_within(trial, "other CPU", began, samples.select(pl.col("time").max()).item() or began)
    mean = (trained if trained.height else samples)["value"].mean()
    return float(mean) if isinstance(mean, float) else 0.0


def _cold_cache_slowdown(rounds: list[Mapping[str, Any]]) -> ColdCacheSlowdown:
    """From the CPU times of steps that waited and that were fed, in turn; what was measured before is one more voice.

    Both are weighted by how sure they are (inverse variances): a trial on a machine whose pace changes tells little.
    """
    pairs = [(_waited(one["usual"]), np.array(one["fed"], dtype=np.float64)[:, 2]) for one in rounds]
    ratios = np.array([float(usual.mean() / max(fed.mean(), 1.0)) for usual, fed in pairs if len(usual)])
    if len(ratios) < 2:
        return COLD_CACHE_SLOWDOWN
    error = float(ratios.std(ddof=1) / np.sqrt(len(ratios)))
    known = (_FED.high - _FED.low) / 2 / ERRORS
    weight = known**2 / (known**2 + error**2)
    value = _FED.value + weight * (float(ratios.mean()) - 1 - _FED.value)
    spread = ERRORS * known * float(np.sqrt(1 - weight))
    value = max(value, LEAST + spread) - READY
    return ColdCacheSlowdown(value=value, low=value - spread, high=value + spread)


def _waited(usual: list[list[int]]) -> Floats:
    """CPU times of the steps that had waited."""
    rows = np.array(usual, dtype=np.float64).reshape(-1, 3)
    times: Floats = rows[rows[:, 0] > WAITED * rows[:, 1], 2]
    return times
