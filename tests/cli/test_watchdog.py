"""`stepscope run --watchdog`: a job that makes no more steps is looked at once, and goes on."""

import textwrap
import time
from pathlib import Path

import pytest

from ..command import stepscope

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
SCRIPT = """
import sys, time
import torch

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def stuck():
    time.sleep(float(sys.argv[1]))

for step in range(30):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step in (10, 20):
        stuck()
print("done")
"""


@pytest.mark.slow
def test_a_job_that_stands_still_is_looked_at_once_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    for wait, told in (("2.5", 1), ("0", 0)):
        run = tmp_path / f"run-{told}"
        words = ("run", "--no-report", "--watchdog", "1", "--out", run, "--", "python", tmp_path / "train.py", wait)
        done = stepscope(*words)
        assert (done.returncode, done.stdout) == (0, "done\n")
        assert done.stderr.count("no step ended for 1 s after step ") == told
        assert (run / "stacks.txt").exists() == bool(told)
    stacks = tmp_path / "run-1" / "stacks.txt"
    for _ in range(100):
        if text := stacks.read_text():
            break
        time.sleep(0.1)
    if "SYS_PTRACE" in text:
        pytest.skip(f"py-spy may not read processes here: {text}")
    assert "in stuck" in text and "MainThread" in text
