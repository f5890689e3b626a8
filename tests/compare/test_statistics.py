"""The interval of the ratio holds the true ratio as often as it promises, also for steps that depend on each other."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.compare import statistics
from stepscope.compare.statistics import block_length, speed_ratio, student

pytestmark = pytest.mark.slow

Floats = npt.NDArray[np.float64]
RUNS = 400  # simulated pairs: the standard error of a coverage of 95 % is then 1.1 %
MEAN, SPREAD = 40e6, 4e6  # steps of 40 ms that vary by a tenth


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals of many simulated pairs need not be precise to the last digit."""
    monkeypatch.setattr(statistics, "REPLICATES", 400)


def steps(random: np.random.Generator, count: int, correlation: float, mean: float = MEAN) -> Floats:
    """RUNS series of an autoregressive process of first order, started from its stationary distribution."""
    noise = random.standard_normal((RUNS, count)) * (1 - correlation**2) ** 0.5
    noise[:, 0] /= (1 - correlation**2) ** 0.5
    for step in range(1, count):
        noise[:, step] += correlation * noise[:, step - 1]
    return np.asarray(mean + SPREAD * mean / MEAN * noise)


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(
    ("count", "correlation"), [(100, 0.0), (100, 0.5), (300, 0.7), (30, 0.0), (40, 0.3), (100, -0.3)]
)
def test_the_interval_holds_the_true_ratio_nineteen_times_in_twenty(count: int, correlation: float) -> None:
    random = np.random.default_rng(7)
    pairs = zip(steps(random, count, correlation), steps(random, count, correlation, mean=0.8 * MEAN), strict=True)
    held = [ratio.low <= 1.25 <= ratio.high for ratio in (speed_ratio(a, b) for a, b in pairs)]
    assert 0.92 <= np.mean(held) <= 0.99


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(("count", "correlation"), [(60, 0.0), (200, 0.6)])
def test_equal_runs_rarely_differ(count: int, correlation: float) -> None:
    random = np.random.default_rng(11)
    pairs = zip(steps(random, count, correlation), steps(random, count, correlation), strict=True)
    differ = [ratio.low > 1 or ratio.high < 1 for ratio in (speed_ratio(a, b) for a, b in pairs)]
    assert np.mean(differ) < 0.07


def test_steps_drawn_one_by_one_would_promise_too_much() -> None:
    """The reason for blocks: with correlated steps the interval is several times as wide as without."""
    (first, *_), (second, *_) = (steps(np.random.default_rng(seed), 300, 0.8) for seed in (1, 2))
    ordered = speed_ratio(first, second)
    shuffled = speed_ratio(*(np.random.default_rng(3).permutation(one) for one in (first, second)))
    assert ordered.estimate == pytest.approx(shuffled.estimate)
    assert ordered.high / ordered.low - 1 > 1.7 * (shuffled.high / shuffled.low - 1)


series = st.lists(st.integers(1, 10**9), min_size=3, max_size=60).map(lambda values: np.array(values, dtype=np.float64))


@settings(max_examples=40, deadline=None)
@given(series, series, st.sampled_from([1.0, 2.0, 8.0]))
def test_the_other_way_round_it_is_mirrored_and_scaling_scales_it(a: Floats, b: Floats, factor: float) -> None:
    one, two = speed_ratio(a, b), speed_ratio(b, a).inverse()
    assert (two.estimate, two.low, two.high) == pytest.approx((one.estimate, one.low, one.high), rel=1e-9)
    slower = speed_ratio(a, factor * b)
    assert slower.estimate == pytest.approx(one.estimate / factor, rel=1e-12)
    assert (slower.low, slower.high) == pytest.approx((one.low / factor, one.high / factor), rel=1e-9)
    assert one.low <= one.estimate <= one.high


def test_the_same_steps_have_ratio_one_exactly() -> None:
    values = np.random.default_rng(5).uniform(1, 2, 50)
    ratio = speed_ratio(values, values)
    assert ratio.estimate == 1.0
    assert ratio.low < 1.0 < ratio.high


def test_speed_is_amount_over_time() -> None:
    times = np.full(20, 10.0)
    ratio = speed_ratio(times, 2 * times, np.full(20, 32.0), np.full(20, 96.0))
    assert [ratio.estimate, ratio.low, ratio.high] == pytest.approx([1.5, 1.5, 1.5])


@pytest.mark.parametrize(("degrees", "quantile"), [(2, 4.303), (3, 3.182), (5, 2.571), (10, 2.228), (100, 1.984)])
def test_quantiles_of_student(degrees: int, quantile: float) -> None:
    assert student(degrees) == pytest.approx(quantile, rel=0.01)


def test_blocks_are_longer_where_steps_depend_on_each_other() -> None:
    random = np.random.default_rng(2)
    independent = np.median([block_length(one) for one in steps(random, 300, 0.0)])
    dependent = np.median([block_length(one) for one in steps(random, 300, 0.7)])
    assert round(300 ** (1 / 3)) <= independent <= 8
    assert dependent >= 12


@pytest.mark.parametrize("count", [2, 3, 4, 10])
def test_few_or_equal_steps_are_no_error(count: int) -> None:
    assert block_length(np.full(count, 3.0)) >= 1
    assert speed_ratio(np.full(count, 3.0), np.full(count, 6.0)).estimate == 0.5
