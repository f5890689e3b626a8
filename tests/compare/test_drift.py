"""Speed that drifts or has two levels is told; ordinary noise is not."""

import numpy as np
import pytest

from stepscope.compare.drift import LEAST_STEPS, unsteadiness


def noise(count: int, seed: int = 0) -> np.typing.NDArray[np.float64]:
    return np.random.default_rng(seed).normal(1.0, 0.05, count)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("shape", ["normal", "uniform", "exponential", "with stalls"])
def test_noise_is_steady(shape: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    series = {
        "normal": random.normal(1.0, 0.05, 200),
        "uniform": random.uniform(0.9, 1.1, 200),
        "exponential": 1 + random.exponential(0.03, 200),
        "with stalls": noise(200, seed) + 5.0 * (np.arange(200) % 20 == 0),
    }[shape]
    assert unsteadiness(series) == ()


def test_a_trend_has_its_size_and_direction() -> None:
    (slower,) = unsteadiness(noise(300) * np.linspace(1.0, 1.3, 300))
    assert slower.kind == "trend"
    assert slower.size == pytest.approx(0.27 / 1.15, abs=0.04)  # from the middle of the first tenth to that of the last
    (faster,) = unsteadiness(noise(300) * np.linspace(1.3, 1.0, 300))
    assert faster.size == pytest.approx(-0.27 / 1.15, abs=0.04)


def test_a_change_in_the_middle_makes_two_levels() -> None:
    assert "levels" in {one.kind for one in unsteadiness(noise(200) + 0.5 * (np.arange(200) >= 100))}


def test_two_levels_are_told_with_the_share_of_the_slow_one() -> None:
    slow = np.random.default_rng(1).random(200) < 0.3
    (levels,) = unsteadiness(noise(200) + 0.6 * slow)
    assert levels.kind == "levels"
    assert levels.share == pytest.approx(slow.mean(), abs=0.02)
    assert levels.size == pytest.approx(0.6 / (1 + 0.6 * slow.mean()), rel=0.1)


def test_nothing_is_said_of_few_steps() -> None:
    assert unsteadiness(np.linspace(1.0, 2.0, LEAST_STEPS - 1)) == ()
    assert unsteadiness(np.full(50, 7.0)) == ()
