"""What a job sees of us: its descriptors, tracebacks and warnings."""

from collections.abc import Callable

import pytest

from .conftest import Both


@pytest.mark.slow
def test_descriptors_are_the_jobs_alone(both: Callable[..., Both]) -> None:
    run = both("daemon.py")
    assert run.bare.seen == run.recorded.seen
    assert run.bare.code == 0
    (steps,) = run.steps
    assert steps > 4000
    assert run.notes == []


@pytest.mark.parametrize("kind", ["fetch", "step", "backward", "warn"])
def test_tracebacks_and_warnings_show_no_frame_of_ours(both: Callable[..., Both], kind: str) -> None:
    run = both("own_raises.py", kind)
    assert run.bare.err != ""
    told = "".join(line for line in run.recorded.err.splitlines(True) if not line.startswith("stepscope: "))
    assert told.strip() == run.bare.err.strip()
    assert run.bare.code == run.recorded.code


def test_annotations_that_last_are_no_words_on_stderr_and_no_crash(both: Callable[..., Both]) -> None:
    run = both("lasting_annotations.py")
    assert run.bare.seen == run.recorded.seen
    assert run.steps == [60]
