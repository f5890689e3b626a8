"""The bounds of an offset hold for any true clocks and delays, and the estimate finds what can be found."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyses.communication.lib.clock_fit import MAX_DRIFT, RESOLUTION, Pairs, bounds, estimate, robust_slope

SECOND, MILLISECOND, MICROSECOND = 1_000_000_000, 1_000_000, 1_000
PPM = 1_000_000


def pairs_of(
    collectives: list[tuple[int, int, int, int]], *, offset: int = 0, ppm: tuple[int, int] = (0, 0)
) -> tuple[Pairs, int, Fraction]:
    """What two ranks record of collectives (start a, start b, time after both started until a's end and b's).

    True times in ns. Also `at`, in the middle on a's clock, and the true offset then.
    """
    a, b = (Fraction(PPM + rate, PPM) for rate in ppm)
    rows = []
    for start_a, start_b, end_a, end_b in collectives:
        both = max(start_a, start_b)
        times = (a * start_a, a * (both + end_a), b * start_b + offset, b * (both + end_b) + offset)
        rows.append([round(time) for time in times])
    recorded = np.array(rows, dtype=np.int64)
    transfer = np.minimum(recorded[:, 1] - recorded[:, 0], recorded[:, 3] - recorded[:, 2])
    columns = dict(zip(("start_a", "end_a", "start_b", "end_b"), recorded.T, strict=True))
    at = int(recorded[:, 0].min() + recorded[:, 1].max()) // 2
    return Pairs(transfer=transfer, **columns), at, b * Fraction(at) / a + offset - at


def evenly(
    count: int, *, every: int = 10 * MILLISECOND, late: int = 0, transfer: int = 100 * MICROSECOND, skew: int = 0
) -> list[tuple[int, int, int, int]]:
    """Rank b arrives `late` ns after a in every other collective, and leaves `skew` after a."""
    return [(place * every, place * every + late * (place % 2), transfer, transfer + skew) for place in range(count)]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 600 * SECOND), st.integers(0, 3 * SECOND), st.integers(0, SECOND), st.integers(0, SECOND)
        ),
        min_size=1,
        max_size=30,
    ),
    st.integers(-1000 * SECOND, 1000 * SECOND),
    st.tuples(st.integers(-99, 99), st.integers(-99, 99)),
    st.booleans(),
)
def test_the_true_offset_is_inside_the_bounds(
    collectives: list[tuple[int, int, int, int]], offset: int, ppm: tuple[int, int], late_is_b: bool
) -> None:
    timed = [(at, at + late, x, y) if late_is_b else (at + late, at, x, y) for at, late, x, y in collectives]
    pairs, at, true = pairs_of(timed, offset=offset, ppm=ppm)
    found = bounds(pairs, at)
    assert found is not None
    assert found.low <= true <= found.high
    drift = float(Fraction(PPM + ppm[1], PPM + ppm[0]) - 1)
    assert found.slowest - 1e-12 <= drift <= found.fastest + 1e-12
    guess = estimate(pairs, found, at)
    if guess is not None:
        assert found.low <= guess.offset <= found.high
        assert max(found.high - guess.offset, guess.offset - found.low) >= guess.uncertainty


@settings(deadline=None)
@given(st.integers(-1000 * SECOND, 1000 * SECOND), st.integers(0, 50), st.integers(1, 40))
def test_ends_that_differ_by_less_than_the_transfer_give_the_offset(offset: int, skew: int, count: int) -> None:
    pairs, at, true = pairs_of(evenly(count, late=MILLISECOND, skew=skew * MICROSECOND), offset=offset)
    found = bounds(pairs, at)
    assert found is not None
    guess = estimate(pairs, found, at)
    assert (guess is None) == (count < 3)
    if guess is not None:
        assert abs(guess.offset - true) <= guess.uncertainty
        assert guess.drift is None


def test_bounds_by_hand() -> None:
    """Without drift between: b starts 1000 after a ends at the earliest reading, and ends 1600 after a's start."""
    pairs, at, _ = pairs_of([(0, 400, 200, 100)], offset=1000)
    found = bounds(pairs, at)
    assert found is not None
    drift = round(MAX_DRIFT * 600)  # over the length of the only collective: less than a nanosecond
    assert found.low == pytest.approx(1400 - 600 - RESOLUTION, abs=2 + drift)
    assert found.high == pytest.approx(1500 + RESOLUTION, abs=2 + drift)


def test_ranks_that_are_late_in_turn_give_narrow_bounds() -> None:
    collectives = [(place * SECOND, place * SECOND + late, 20_000, 20_000) for place, late in enumerate((9999, -9999))]
    pairs, at, _ = pairs_of(collectives * 10, offset=SECOND)
    found = bounds(pairs, at)
    assert found is not None
    assert found.high - found.low < 2 * (20_000 + RESOLUTION + MAX_DRIFT * SECOND) + 10


def test_a_clock_that_was_set_meanwhile_fits_no_offset() -> None:
    before, _, _ = pairs_of(evenly(10))
    after, _, _ = pairs_of(evenly(10), offset=SECOND)
    columns = ("start_a", "end_a", "start_b", "end_b", "transfer")
    both = Pairs(**{name: np.concatenate((getattr(before, name), getattr(after, name))) for name in columns})
    assert bounds(both, 0) is None


@pytest.mark.parametrize("ppm", [-80, -50, 50, 80])
def test_drift_is_found_where_it_moves_the_offset_by_more_than_the_uncertainty(ppm: int) -> None:
    pairs, at, true = pairs_of(evenly(400, every=100 * MILLISECOND, late=MILLISECOND), offset=17, ppm=(0, ppm))
    found = bounds(pairs, at)
    assert found is not None
    guess = estimate(pairs, found, at)
    assert guess is not None
    assert guess.drift == pytest.approx(ppm / PPM, rel=0.01)
    assert abs(guess.offset - true) <= guess.uncertainty
    assert found.slowest <= ppm / PPM <= found.fastest
    assert found.slowest * ppm > 0  # the bounds alone say that the clocks run apart


def test_drift_that_the_transfer_hides_is_not_claimed() -> None:
    pairs, at, _ = pairs_of(evenly(40, every=MILLISECOND), ppm=(0, 50))
    found = bounds(pairs, at)
    assert found is not None
    guess = estimate(pairs, found, at)
    assert guess is not None
    assert guess.drift is None


@settings(deadline=None)
@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.integers(12, 60), st.data())
def test_a_quarter_of_wild_points_leaves_the_slope_near(
    slope: int, start: int, count: int, data: st.DataObject
) -> None:
    x = np.arange(count, dtype=np.float64)
    y = slope * x + start
    wild = data.draw(st.lists(st.integers(0, count - 1), max_size=(count // 2 - 1) // 2, unique=True))
    y[wild] += data.draw(st.sampled_from([-1e9, 1e9]))
    assert robust_slope(x, y) == pytest.approx(slope, abs=1e-6)


def test_the_slope_of_points_at_one_time_is_none() -> None:
    assert robust_slope(np.zeros(12), np.arange(12.0)) == 0.0
