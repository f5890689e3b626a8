"""Whether the steps of a run keep one speed: a trend or two levels make its mean a poor answer.

The trend is the slope of Theil (1950) and Sen (1968) through the medians of ten stretches of the run, if Kendall's tau
of these says that it is one. Two levels are the split of Otsu (1979): the share of the variance that lies between the
slow and the fast steps.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

__all__ = ["LEAST_STEPS", "Unsteady", "unsteadiness"]

LEAST_STEPS = 20
"""Steps below which nothing is said: two for each stretch."""

_STRETCHES = 10
_TREND = 0.05  # of the median step, from the first to the last stretch: below it, no decision hangs on it
_TAU = 0.5  # by chance one run in twenty of ten equal stretches reaches it
_LEVELS = 0.2  # of the mean step between the two: less is no level of its own but spread
_BETWEEN = 0.8  # of the variance: 0.64 for a normal distribution, 0.75 for a uniform one
_SMALLER = 0.1  # of the steps, at least, are on each level: fewer are stalls, and a rule of their own names them
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsteady:
    """What makes a speed unsteady, and how much of the step it is: a trend from begin to end, or between two levels.

    `share` is the part of the steps on the slower level; None for a trend, whose size is negative if steps get faster.
    """

    kind: Literal["trend", "levels"]
    size: float
    share: float | None = None


def unsteadiness(times: Floats) -> tuple[Unsteady, ...]:
    """What makes the speed of consecutive steps unsteady; nothing for less than LEAST_STEPS."""
    if len(times) < LEAST_STEPS or not times.sum():
        return ()
    found = (_trend(times), _levels(times))
    return tuple(one for one in found if one is not None)


def _trend(times: Floats) -> Unsteady | None:
    medians = np.array([np.median(part) for part in np.array_split(times, _STRETCHES)])
    pairs = list(combinations(range(_STRETCHES), 2))
    rises = np.array([medians[later] - medians[earlier] for earlier, later in pairs])
    tau = float(np.sign(rises).mean())
    slope = float(np.median(rises / [later - earlier for earlier, later in pairs]))
    size = slope * (_STRETCHES - 1) / float(np.median(times))
    return Unsteady(kind="trend", size=size) if abs(tau) >= _TAU and abs(size) >= _TREND else None


def _levels(times: Floats) -> Unsteady | None:
    ordered = np.sort(times)
    n, variance = len(ordered), float(ordered.var())
    counts = np.arange(int(np.ceil(_SMALLER * n)), int(np.floor((1 - _SMALLER) * n)) + 1)
    below = np.cumsum(ordered)[counts - 1]
    gaps = (ordered.sum() - below) / (n - counts) - below / counts
    between = counts * (n - counts) / n**2 * gaps**2
    best = int(between.argmax())
    size = float(gaps[best] / ordered.mean())
    if variance <= 0 or between[best] < _BETWEEN * variance or size < _LEVELS:
        return None
    return Unsteady(kind="levels", size=size, share=float(1 - counts[best] / n))
