"""With torch as users start it: plain jobs, what a job sends by value, and compiled graphs."""

from collections.abc import Callable

import pytest

from .conftest import Both

WHOLE_TORCH = True


def test_a_plain_job_is_as_bare(both: Callable[..., Both]) -> None:
    run = both("plain.py")
    assert run.bare.seen == run.recorded.seen
    assert run.bare.code == 0
    assert run.steps == [100]
    assert run.notes == []


def test_classes_are_pickled_by_value_and_work_without_us(both: Callable[..., Both]) -> None:
    run = both("sent_by_value.py")
    assert (run.bare.code, run.bare.out) == (run.recorded.code, run.recorded.out)
    assert "Error" not in run.bare.out
    assert run.steps == [2]


@pytest.mark.slow
def test_a_compiled_step_has_the_same_graphs(both: Callable[..., Both]) -> None:
    run = both("compiled_step.py")
    assert run.bare.code == run.recorded.code == 0
    assert run.bare.out == run.recorded.out
    assert "stepscope" not in run.recorded.err
    assert run.steps == [60]
