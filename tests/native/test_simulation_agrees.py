"""The compiled simulation of loaders gives what the one by numpy gives, on random cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.models.loader_simulation import Case, simulate
from stepscope.native import _scanner

from .simulation_by_numpy import side_by_side

LENGTHS = st.one_of(st.just(0.0), st.floats(1e3, 1e8))
PARTS = st.floats(0.0, 1.0)


@st.composite
def cases(draw: st.DrawFn) -> list[Case]:
    """Up to four cases of up to 40 batches."""
    batches = draw(st.integers(1, 40))
    return [
        Case(
            workers=draw(st.integers(1, 6)),
            prefetch=draw(st.integers(1, 4)),
            fetch=np.array([[draw(LENGTHS), draw(LENGTHS)] for _ in range(batches)]),
            feed=draw(LENGTHS),
            step=draw(st.floats(1e3, 1e8)),
            step_cpu=draw(st.floats(0, 1e8)),
            cores=draw(st.floats(0.5, 8)),
            foreign=draw(st.sampled_from([0.0, 0.3, 2.0])),
            contention=draw(PARTS),
            at=draw(st.floats(1, 4)),
            cpu_contention=draw(st.floats(0.5, 2.5)),
            cold_cache_slowdown=draw(PARTS),
            kept=draw(st.floats(0.5, 1)),
            hold=draw(LENGTHS),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]


@pytest.mark.slow
@given(cases())
def test_compiled_simulation_equals_that_by_numpy(cases: list[Case]) -> None:
    """Sums are added in another order, and what ends at the same moment may then end in another order."""
    one, other = simulate(cases), side_by_side(cases)
    assert one.ends == pytest.approx(other.ends, rel=1e-9)
    for name in ("fetch", "step", "waited", "held"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9)


def test_what_is_no_loader_is_refused() -> None:
    fetch, ends, means = np.ones((1, 2, 2)), np.zeros((1, 2)), np.zeros((1, 4))
    for workers, prefetch in ((0, 2), (1, 0), (float("nan"), 2), (1e9, 2)):
        with pytest.raises(ValueError, match="no such loader"):
            _scanner.simulate(
                np.array([[workers, prefetch, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1, 0]], dtype=float), fetch, ends, means
            )
    with pytest.raises(ValueError, match="arrays of different lengths"):
        _scanner.simulate(np.ones((1, 13)), fetch[:, :1], ends, means)
