"""Frames that the line sampler looks at end when, where and as they do bare: memory, finalizers, files."""

from collections.abc import Callable

import pytest

from .conftest import Both


@pytest.mark.slow
def test_locals_end_with_their_function(both: Callable[..., Both]) -> None:
    run = both("locals.py", "2.5", options=("--quiet", "--no-report", "--lines", "200", "--loader-lines", "200"))
    assert run.bare.seen == run.recorded.seen
    assert "'late': 0, 'elsewhere': 0, 'unwritten': 0, 'on': 0, 'off': 0} in the worker [0.0, 0.0]" in run.bare.out
    assert run.notes == []
    assert run.bare.peak_kb is not None
    assert run.recorded.peak_kb is not None
    assert run.recorded.peak_kb < run.bare.peak_kb * 1.05


@pytest.mark.slow
def test_a_validation_loader_with_workers_takes_no_longer(both: Callable[..., Both]) -> None:
    run = both("validation.py", options=("--quiet", "--no-report", "--lines", "200"))
    assert run.bare.seen == run.recorded.seen
    assert "validations that took long: 0 " in run.bare.out
    assert run.steps == [160]
    assert run.notes == []
