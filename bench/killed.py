"""A job killed with SIGKILL at random moments: is every step but the one in flight readable?

The job counts its own steps in a file; the run folder must hold as many, or one more (counted after the record).

    python bench/killed.py --times 20
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOB = """
import os, sys, torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
count = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
print(os.getpid(), flush=True)
step = 0
while True:
    for (inputs,) in DataLoader(TensorDataset(torch.rand(512, 16)), batch_size=8):
        model(inputs).sum().backward()
        optimizer.step()
        step += 1
        os.pwrite(count, b"%12d" % step, 0)
"""


def killed_once(folder: Path, seconds: float) -> tuple[int, int, int]:
    """Exit code of stepscope, steps the job counted, steps that can be read."""
    job, count, run = folder / "job.py", folder / "count", folder / "run"
    job.write_text(JOB)
    command = [sys.executable, "-m", "stepscope", "run", "--quiet", "--out", str(run), "--"]
    process = subprocess.Popen(
        [*command, sys.executable, str(job), str(count)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    while not (count.exists() and count.stat().st_size):
        time.sleep(0.01)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    code = process.wait()
    show = [sys.executable, "-m", "stepscope", "show", "steps", str(run), "--format", "json"]
    rows = json.loads(subprocess.run(show, check=True, capture_output=True, text=True).stdout)["rows"]
    return code, int(count.read_text()), len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    options = parser.parse_args()
    chance, wrong = random.Random(), 0
    for turn in range(options.times):
        with tempfile.TemporaryDirectory() as name:
            code, counted, readable = killed_once(Path(name), chance.uniform(0.0, 3.0))
        right = code == -signal.SIGKILL and readable in (counted, counted + 1)
        wrong += not right
        print(
            f"{turn:3}: exit {code}, {counted} steps counted, {readable} readable{'' if right else '  WRONG'}",
            flush=True,
        )
    print(f"{options.times - wrong} of {options.times} as they should be")


if __name__ == "__main__":
    main()
