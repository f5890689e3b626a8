"""How far the noise of steps alone can move the ratio of two mean speeds.

Steps are not independent: a slow one is often followed by another (caches, clock frequency, a loader that catches up).
So blocks of consecutive steps are drawn with replacement, not steps: the circular block bootstrap (Künsch 1989; Politis
and Romano 1992). The length of a block is from the autocorrelation (Politis and White 2004, corrected by Patton,
Politis and White 2009), at least n^(1/3) (Hall, Horowitz and Jing 1995). With k blocks the spread of the means is
itself an estimate with about k - 1 degrees of freedom, so deviations are widened by √(k / (k - 1)) and by Student's t
over the normal quantile (the idea of Kiefer and Vogelsang 2005).

Draws follow from a fixed seed and the order of the steps by length: the same two runs give the same interval, the other
way round the mirrored one, and scaling all times changes nothing but the ratio.
"""

import math
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["CONFIDENCE", "LEAST", "REPLICATES", "Ratio", "block_length", "speed_ratio", "student"]

CONFIDENCE = 0.95
"""One interval in twenty may miss."""

REPLICATES = 2000
"""Means drawn for each run: the ends of the interval then vary by about 2 % of its width."""

LEAST = 3
"""Steps from which on there is an interval: two differ in one way only, from which no spread can be told."""

_SEED = 1989  # any number does, as long as it stays the same
_Z = 1.959964  # quantile of the normal distribution for CONFIDENCE
_LONGER = 2.0  # the length that estimates the spread best leaves it too small; by simulation this one holds 95 %
_LONGEST = 3 * _LONGER  # times √n; Politis and White, for their own length
_LEAST_BLOCKS = 3  # of longer blocks there are too few to tell how much they differ
_LARGEST_DRAW = 2_000_000  # starts of blocks drawn at a time: 16 MB
_LAGS_OF_NOISE = 5  # lags without correlation before the correlation counts as over; Politis and White
_NOISE = 2.0  # standard errors within which a correlation counts as none; the same
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How many times as fast B is as A, and the ends of the 95 % interval."""

    estimate: float
    low: float
    high: float

    def inverse(self) -> "Ratio":
        """How many times as fast A is as B."""
        return Ratio(estimate=1 / self.estimate, low=1 / self.high, high=1 / self.low)


def speed_ratio(a: Floats, b: Floats, amounts_a: Floats | None = None, amounts_b: Floats | None = None) -> Ratio:
    """The mean speed of B over that of A, from positive times of consecutive steps (at least LEAST on each side).

    `amounts` are what each step does, such as samples; without, each step does the same.
    """
    amounts_a = np.ones(len(a)) if amounts_a is None else amounts_a
    amounts_b = np.ones(len(b)) if amounts_b is None else amounts_b
    estimate = float(amounts_b.sum() / b.sum()) / float(amounts_a.sum() / a.sum())
    drawn_a, drawn_b = ([_deviations(*side, stream) for stream in (0, 1)] for side in ((a, amounts_a), (b, amounts_b)))
    # Each stream of draws once for each run: what follows is the same, mirrored, with A and B the other way round.
    moved = np.sort(np.concatenate((drawn_b[1] - drawn_a[0], drawn_b[0] - drawn_a[1])))
    beyond = int(len(moved) * (1 - CONFIDENCE) / 2)
    low, high = float(moved[beyond]), float(moved[-1 - beyond])
    return Ratio(estimate=estimate, low=estimate * np.exp(low).item(), high=estimate * np.exp(high).item())


def block_length(values: Floats) -> int:
    """How many consecutive steps make one block, from 1 to a third of them."""
    n = len(values)
    least, most = round(math.cbrt(n)), max(1, min(round(_LONGEST * math.sqrt(n)), n // _LEAST_BLOCKS))
    covariances = _autocovariances(values - values.mean(), min(n - 1, math.ceil(math.sqrt(n)) + _LAGS_OF_NOISE))
    if covariances[0] <= 0:
        return min(least, most)
    lags = np.arange(1, len(covariances))
    weights = _flat_top(lags / min(2 * _last_correlated(covariances / covariances[0], n), lags[-1]))
    spread = covariances[0] + 2 * float(weights @ covariances[1:])
    bias = 2 * float((weights * lags) @ covariances[1:])
    if spread <= 0:
        return min(least, most)
    found = math.cbrt(1.5 * (bias / spread) ** 2 * n)  # (2 G² / D)^(1/3) n^(1/3) with D = 4/3 g²
    return min(max(math.ceil(_LONGER * found), least), most)


def student(degrees: int) -> float:
    """Quantile of Student's t for CONFIDENCE, by the expansion of Abramowitz and Stegun 26.7.5; degrees from 2 on."""
    z = np.array([_Z**power for power in (1, 3, 5, 7, 9)])
    terms = (
        np.array([1, 1, 0, 0, 0]) @ z / 4,
        np.array([3, 16, 5, 0, 0]) @ z / 96,
        np.array([-15, 17, 19, 3, 0]) @ z / 384,
        np.array([-945, -1920, 1482, 776, 79]) @ z / 92160,
    )
    return _Z + float(sum(term / degrees**power for power, term in enumerate(terms, 1)))


def _deviations(times: Floats, amounts: Floats, stream: int) -> Floats:
    """Logarithms of drawn speeds over the speed that was seen, widened for the number of blocks."""
    n = len(times)
    length = block_length(times / amounts if (amounts > 0).all() else times)
    blocks = -(-n // length)
    sums = np.stack([_block_sums(values, length) for values in (times, amounts)])
    random = np.random.default_rng([_SEED, stream, _key(times)])
    drawn = np.empty((2, REPLICATES))
    batch = max(1, _LARGEST_DRAW // blocks)
    for first in range(0, REPLICATES, batch):
        starts = random.integers(0, n, size=(min(batch, REPLICATES - first), blocks))
        drawn[:, first : first + len(starts)] = sums[:, starts].sum(axis=2)
    # A draw with no amount at all says nothing; it is taken as the least that a step did.
    speed = np.log(np.maximum(drawn[1], 1e-9)) - np.log(drawn[0]) - float(np.log(amounts.sum() / times.sum()))
    if blocks < 2:
        return np.asarray(speed)
    widening = (blocks / (blocks - 1)) ** 0.5 * (blocks * length / n) ** 0.5 * student(max(blocks - 1, 2)) / _Z
    return np.asarray(speed * widening)


def _block_sums(values: Floats, length: int) -> Floats:
    """The sum of `length` values from each place on; after the last comes the first again."""
    ends = np.concatenate(([0.0], np.cumsum(np.concatenate((values, values[:length])))))
    return np.asarray(ends[length : length + len(values)] - ends[: len(values)])


def _autocovariances(deviations: Floats, lags: int) -> Floats:
    """Covariance of each value with that so many steps later, for 0 to `lags` steps."""
    size = 1 << (2 * len(deviations) - 1).bit_length()
    spectrum = np.fft.rfft(deviations, size)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, size)[: lags + 1] / len(deviations))


def _last_correlated(correlations: Floats, n: int) -> int:
    """The lag after which the next ones are all no more than noise; 1 if there is no correlation."""
    small = np.abs(correlations[1:]) < _NOISE * (np.log10(n) / n) ** 0.5
    for lag in range(len(small)):
        if small[lag : lag + _LAGS_OF_NOISE].all():
            return max(lag, 1)
    return len(small)


def _flat_top(x: npt.NDArray[np.float64]) -> Floats:
    """The window of Politis and Romano 1995: 1 up to a half, then down to 0 at 1."""
    return np.clip(2 * (1 - x), 0.0, 1.0)


def _key(times: Floats) -> int:
    """A number that follows from the order of the steps by length, and not from the unit of their times."""
    order = np.argsort(times, kind="stable").astype(np.int64)
    return zlib.crc32(order.tobytes(), len(times))
