"""What recording a loader must leave as it is: data, transforms, threads, descriptors, failures, warnings, coverage."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import JOBS, QUIET, Both, Outcome

ALL = (*QUIET, "--loader", "all", "--trace", "none")

pytestmark = pytest.mark.slow


def same(run: Both) -> None:
    assert run.recorded.out == run.bare.out
    assert run.recorded.seen == run.bare.seen


def warned(outcome: Outcome) -> set[str]:
    """The warnings: a worker makes some samples more or less before it is ended."""
    return {line for line in outcome.err.splitlines() if "Warning: " in line}


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_data_set_that_looks_at_its_transforms_loads_the_same(both: Callable[..., Both], workers: str) -> None:
    run = both("looking_data_set.py", workers, options=ALL)
    same(run)
    assert run.steps == [30]
    assert "by_cache" in run.bare.out


def test_threads_that_share_transforms_and_end_find_all_as_it_was(both: Callable[..., Both]) -> None:
    run = both("sharing_threads.py", options=ALL)
    same(run)
    assert run.bare.out.startswith("0 True")
    assert run.steps == [96]


@pytest.mark.parametrize("workers", ["0", "1"])  # two would put their batches in any order
def test_failures_and_warnings_of_a_loader_are_as_bare(both: Callable[..., Both], workers: str) -> None:
    run = both("failing_data.py", workers, options=ALL)
    assert run.recorded.out == run.bare.out
    assert warned(run.recorded) == warned(run.bare) != set()
    assert "stepscope/collect" not in run.recorded.err
    assert run.bare.out.count("Traceback") >= 5


def test_coverage_of_a_recorded_job_can_be_reported(tmp_path: Path) -> None:
    pytest.importorskip("coverage")
    reports = []
    for before in ([], [sys.executable, "-m", "stepscope", "run", *ALL, "--out", str(tmp_path / "run"), "--"]):
        folder = tmp_path / ("recorded" if before else "bare")
        folder.mkdir()
        measured = [sys.executable, "-m", "coverage", "run", str(JOBS / "looking_data_set.py"), "0"]
        done = [subprocess.run([*before, *measured], cwd=folder, capture_output=True, text=True, check=True)]
        for kind in ("report", "xml"):
            report = [sys.executable, "-m", "coverage", kind, "--omit", "*/stepscope/*"]
            done.append(subprocess.run(report, cwd=folder, capture_output=True, text=True, check=False))
        reports.append([(one.returncode, one.stdout, one.stderr) for one in done])
    assert reports[1] == reports[0]
    assert reports[0][1][0] == 0
