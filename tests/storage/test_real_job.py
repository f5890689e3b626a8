"""A real job of two ranks, recorded by stepscope, reported on by any number of processes."""

import json
import sys
from pathlib import Path

import pytest

from ..command import printed

pytestmark = pytest.mark.slow

SCRIPT = """
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for (batch,) in DataLoader(TensorDataset(torch.randn(640, 64)), batch_size=16):
    model(batch).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
time.sleep(0.1)  # torch 2.13, bare or not, aborts if gloo's thread still drops the last call when Python ends
"""


def test_two_ranks_of_torchrun(tmp_path: Path) -> None:
    script, run = tmp_path / "train.py", tmp_path / "run"
    script.write_text(SCRIPT)
    launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", script)
    printed("run", "--no-report", "--out", run, "--", *launcher)
    one, two = (printed("report", run, "--format", "json", "--jobs", workers) for workers in (1, 2))
    assert one == two
    assert json.loads(one)["run"]["ranks"] == [0, 1]
    assert len(printed("show", "steps", run, "--format", "csv").splitlines()) == 1 + 2 * 40
