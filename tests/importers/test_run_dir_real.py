"""A run folder recorded from a real training job."""

import sys
from pathlib import Path

import polars as pl
import pytest

from stepscope.collect.launch import launch
from stepscope.run_format.options import RecordingOptions
from stepscope.storage import open_run

SCRIPT = """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(torch.randn(48, 8), torch.randn(48, 1)), batch_size=4):
    optimizer.zero_grad()
    (model(x) - y).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_run_of_a_real_job(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    trace = {"skip_first": 0, "wait": 4, "warmup": 1, "active": 2, "repeat": 1}
    launch([sys.executable, str(script)], str(tmp_path / "run"), RecordingOptions(trace=trace, lines_hz=50))
    run = open_run(tmp_path / "run")
    steps = run.optional("steps")
    assert steps["step"].to_list() == list(range(12))
    assert steps["samples"].to_list() == [4] * 12
    parts = sum(steps[part] for part in ("data_wait", "forward", "backward", "optimizer", "other"))
    assert (steps["end"] - steps["start"] == parts).all()
    assert run.optional("skipped").is_empty()
    markers = run.optional("host").filter(pl.col("name").str.starts_with("ProfilerStep#"))
    traced = steps.filter(pl.col("tags").list.contains("traced"))
    assert markers["name"].to_list() == [f"ProfilerStep#{number}" for number in traced["step"].to_list()]
    apart = (markers["start"] - traced["start"]).abs().min()  # one of them may be held up between the two
    assert isinstance(apart, int)
    assert apart < 5_000_000  # the two clocks agree to well below a step
    assert run.optional("loaders")["train"].to_list() == [True]
    assert run.optional("optimizers")["name"].to_list() == ["SGD"]
    assert run.optional("windows")["status"].to_list() == ["recorded"]
