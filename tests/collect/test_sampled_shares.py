"""Shares of sampled lines against the truth: the bench of planted parts in a fast form."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "sampled_lines.py"


@pytest.mark.alone
@pytest.mark.slow
def test_parts_get_their_share_in_training_and_in_a_worker() -> None:
    """A sampler that takes turns with the job is 10 to 16 points off: it sees what releases the interpreter lock.

    Two points are chance with so few samples; beside other work a sampler sees more of what leaves its core.
    """
    assert_true("--only", "training", "worker", "--points", "8")


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core is always at work")
def test_a_part_of_one_thread_gets_its_share_beside_operators_of_all_cores() -> None:
    """A look that has to wake a core is late just where one is free: it gave such a part 12 points less."""
    assert_true("--only", "threads", "--seconds", "10", "--points", "7")


def assert_true(*options: str) -> None:
    command = [sys.executable, str(BENCH), "--seconds", "5", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
