"""The comparison itself: a job without any habit is the same bare and recorded."""

from collections.abc import Callable

from .conftest import Both

WHOLE_TORCH = True


def test_a_plain_job_is_as_bare(both: Callable[..., Both]) -> None:
    run = both("plain.py")
    assert run.bare.seen == run.recorded.seen
    assert run.bare.code == 0
    assert run.steps == [100]
    assert run.notes == []
