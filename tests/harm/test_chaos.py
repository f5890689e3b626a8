"""Whatever goes wrong in the recorder, the job ends as it would without it, with the same outputs and data."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ..thoroughness import tries
from .conftest import QUIET, Both

BENCH = Path(__file__).parent.parent.parent / "bench"


@pytest.mark.slow
def test_faults_in_the_recorder_change_nothing() -> None:
    jobs = tries(30, 1000)
    command = [sys.executable, str(BENCH / "chaos.py"), "--jobs", str(jobs), "--processes", "2", "--seed", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=tries(900, 5000), check=False)
    told = done.stdout.splitlines()[-1] if done.returncode == 0 else ""
    assert told.startswith(f"{jobs} jobs") and told.endswith(" 0 differences"), done.stdout + done.stderr
    came, steps = (int(number) for number in re.findall(r"came in (\d+), (\d+) steps", told)[0])
    assert came > jobs // 2 and steps > 5 * jobs  # the faults come, and what they leave is recorded


def test_every_guard_of_the_faults_is_a_function_of_the_recorder() -> None:
    found = "from chaos_faults import unknown_guards; print(unknown_guards())"
    done = subprocess.run([sys.executable, "-c", found], cwd=BENCH, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_folder_of_the_run_vanishes_while_workers_make_batches(both: Callable[..., Both]) -> None:
    outcome = both("vanishing.py", options=(*QUIET, "--trace", "none"))
    bare, recorded = outcome.bare, outcome.recorded
    assert (recorded.code, recorded.out, recorded.files) == (bare.code, bare.out, bare.files)
    assert all(line.startswith("stepscope: not recorded:") for line in recorded.err.splitlines())
