"""The offset between two clocks, from events that both saw: bounds that hold whatever the delays, and an estimate.

Rank a's part of a collective lasts on a's clock from start_a to end_a, rank b's likewise. Nobody's part can end before
the other's has started, so the offset (b's clock less a's) is at least start_b - end_a when a's clock reads end_a, and
at most end_b - start_a when it reads start_a. The clocks run at speeds that differ by a constant of at most MAX_DRIFT:
offset(t) = offset + drift (t - at). The bounds are the smallest and largest offset of all lines that keep every
constraint, which is a linear program of two unknowns: for one drift the bounds are a maximum and a minimum, convex and
concave in the drift, so both are found by dividing the range of drifts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor

import numpy as np
import numpy.typing as npt

__all__ = ["MAX_DRIFT", "RESOLUTION", "Bounds", "Estimate", "Pairs", "bounds", "estimate", "robust_slope"]

MAX_DRIFT = 2e-4  # quartz oscillators keep within 100 ppm of their frequency, so two differ by 200 ppm at most
RESOLUTION = 3_000  # ns: time stamps of a trace lie up to 3 µs off the host's clock, more than any rounding
_MAD_TO_SIGMA = 1.4826  # median absolute deviation of a normal distribution, to its standard deviation
_SHORTEST = 0.25  # share of the collectives, the shortest, that the estimate is from: ends differ by their transfer
_FEWEST = 3  # collectives: with fewer a median is one collective's word
_FEWEST_FOR_DRIFT = 10  # collectives: as many pairs as halves of five, so that one bad one changes no median
_FINEST = 1e-17  # of the drift, so that thirds of it are still floats of their own
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Pairs:
    """Collectives that two ranks share: start and end on each clock, and the transfer time; ns, one row each."""

    start_a: Ints
    end_a: Ints
    start_b: Ints
    end_b: Ints
    transfer: Ints

    def __len__(self) -> int:
        return len(self.start_a)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The offset at `at` lies in [low, high] (ns), the drift in [slowest, fastest] (ratio)."""

    low: int
    high: int
    slowest: float
    fastest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Offset at `at` in ns, give or take `uncertainty`; `drift` as a ratio, None where none can be told from zero."""

    offset: int
    uncertainty: int
    drift: float | None


def bounds(pairs: Pairs, at: int) -> Bounds | None:
    """Hard bounds of the offset when a's clock reads `at`; None if no offset and drift keep every constraint."""
    base = int(np.median(pairs.end_b - pairs.end_a))  # keeps the numbers small enough for floats
    floors = (pairs.start_b - pairs.end_a - base - RESOLUTION).astype(np.float64)
    ceilings = (pairs.end_b - pairs.start_a - base + RESOLUTION).astype(np.float64)
    at_floors, at_ceilings = (pairs.end_a - at).astype(np.float64), (pairs.start_a - at).astype(np.float64)

    def lowest(drift: float) -> float:
        return float((floors - drift * at_floors).max())

    def highest(drift: float) -> float:
        return float((ceilings - drift * at_ceilings).min())

    def gap(drift: float) -> float:
        return lowest(drift) - highest(drift)

    reach = float(np.abs((at_floors, at_ceilings)).max())
    fineness = max(0.1 / max(reach, 1.0), _FINEST)  # of the drift: a tenth of a nanosecond
    best = _least(gap, -MAX_DRIFT, MAX_DRIFT, fineness)
    if gap(best) > 0:
        return None
    slowest, fastest = _edge(gap, best, -MAX_DRIFT, fineness), _edge(gap, best, MAX_DRIFT, fineness)
    low = lowest(_least(lowest, slowest, fastest, fineness))
    high = highest(_least(lambda drift: -highest(drift), slowest, fastest, fineness))
    return Bounds(low=base + floor(low) - 1, high=base + ceil(high) + 1, slowest=slowest, fastest=fastest)


def estimate(pairs: Pairs, within: Bounds, at: int) -> Estimate | None:
    """The offset from the ends, which differ by the transfer at most; None with too few collectives for a median.

    The uncertainty is the typical transfer time of the shortest collectives or the scatter of their end differences,
    whichever is larger, and never reaches beyond the bounds.
    """
    if len(pairs) < _FEWEST:
        return None
    ends, times = pairs.end_b - pairs.end_a, (pairs.end_a - at).astype(np.float64)
    shortest = np.argsort(pairs.transfer, kind="stable")[: max(_FEWEST, ceil(len(pairs) * _SHORTEST))]
    base = int(np.median(ends))
    apart = (ends - base).astype(np.float64)
    transfer = float(np.median(pairs.transfer[shortest]))
    offset, uncertainty = _center(apart[shortest], transfer)
    drift = None
    if len(pairs) >= _FEWEST_FOR_DRIFT:
        slope = min(max(robust_slope(times, apart), within.slowest), within.fastest)
        if abs(slope) * float(times.max() - times.min()) > uncertainty:
            drift = slope
            offset, uncertainty = _center((apart - slope * times)[shortest], transfer)
    clipped = min(max(base + round(offset), within.low), within.high)
    return Estimate(
        offset=clipped,
        drift=drift,
        uncertainty=min(ceil(uncertainty), max(within.high - clipped, clipped - within.low)),
    )


def robust_slope(x: Floats, y: Floats) -> float:
    """Median of the slopes between each point and the one half of the points later (Theil's incomplete method)."""
    order = np.argsort(x, kind="stable")
    half = len(x) // 2
    early, late = order[:half], order[-half:]
    run = x[late] - x[early]
    apart = run > 0
    return float(np.median((y[late] - y[early])[apart] / run[apart])) if apart.any() else 0.0


def _center(apart: Floats, transfer: float) -> tuple[float, float]:
    """Median, and how far off it may be."""
    middle = float(np.median(apart))
    scatter = _MAD_TO_SIGMA * float(np.median(np.abs(apart - middle)))
    return middle, max(scatter, transfer, RESOLUTION)


def _least(of: Callable[[float], float], low: float, high: float, fineness: float) -> float:
    """Where a convex function is least, give or take `fineness`."""
    while high - low > fineness:
        third = (high - low) / 3
        if of(low + third) <= of(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2


def _edge(gap: Callable[[float], float], inside: float, outside: float, fineness: float) -> float:
    """The edge of gap <= 0 from `inside` towards `outside`, at most `fineness` beyond it."""
    if gap(outside) <= 0:
        return outside
    while abs(outside - inside) > fineness:
        middle = (inside + outside) / 2
        if gap(middle) <= 0:
            inside = middle
        else:
            outside = middle
    return outside
