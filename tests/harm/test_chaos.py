"""Whatever goes wrong in the recorder, the job ends as it would without it, with the same outputs and data."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ..thoroughness import tries
from .conftest import QUIET, Both

WHOLE_TORCH = True

BENCH = Path(__file__).parent.parent.parent / "bench" / "chaos.py"


@pytest.mark.slow
def test_faults_in_the_recorder_change_nothing() -> None:
    command = [sys.executable, str(BENCH), "--jobs", str(tries(40, 1000)), "--processes", "2", "--seed", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=tries(900, 5000), check=False)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, [""]), done.stdout + done.stderr


def test_the_folder_of_the_run_vanishes_while_workers_make_batches(both: Callable[..., Both]) -> None:
    outcome = both("vanishing.py", options=(*QUIET, "--trace", "none"))
    bare, recorded = outcome.bare, outcome.recorded
    assert (recorded.code, recorded.out, recorded.files) == (bare.code, bare.out, bare.files)
    assert all(line.startswith("stepscope: not recorded:") for line in recorded.err.splitlines())
