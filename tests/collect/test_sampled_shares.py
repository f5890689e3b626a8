"""Shares of sampled lines against the truth: the bench of planted parts in a fast form."""

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
    command = [sys.executable, str(BENCH), "--seconds", "5", "--points", "8"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
