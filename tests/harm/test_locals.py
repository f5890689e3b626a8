"""Frames that the line sampler looks at end when, where and as they do bare: memory, finalizers, files."""

from collections.abc import Callable

import pytest

from .conftest import QUIET, Both

OWN_KB = 32_000  # what a recording takes, half of it its trace
TWO_TENSORS_KB = (
    16_400  # bare runs differ by that, where the heap was cut when one of 8 MB was made; a leak is hundreds
)


@pytest.mark.slow
def test_locals_end_with_their_function(both: Callable[..., Both]) -> None:
    run = both("locals.py", "2.5", options=(*QUIET, "--lines", "200", "--loader-lines", "200"))
    assert run.bare.seen == run.recorded.seen
    assert "'late': 0, 'elsewhere': 0, 'unwritten': 0, 'on': 0, 'off': 0} in the worker [0.0, 0.0]" in run.bare.out
    assert run.notes == []
    assert run.bare.peak_kb is not None
    assert run.recorded.peak_kb is not None
    assert run.recorded.peak_kb < run.bare.peak_kb + OWN_KB + TWO_TENSORS_KB


@pytest.mark.slow
def test_a_validation_loader_with_workers_takes_no_longer(both: Callable[..., Both]) -> None:
    run = both("validation.py", options=(*QUIET, "--lines", "200"))
    assert run.bare.seen == run.recorded.seen
    assert "validations that took long: 0 " in run.bare.out
    assert run.steps == [160]
    assert run.notes == []
