"""Real training on the CPU: what parameters, gradients and optimizer state take is known, and must be found."""

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from stepscope.analyses.memory.allocations import allocations
from stepscope.analyses.memory.memory_at_peak import memory_at_peak
from stepscope.analyses.memory.memory_lines import memory_lines
from stepscope.analyses.memory.memory_operators import memory_operators
from stepscope.analyses.memory.memory_peaks import memory_peaks
from stepscope.core.run import Run
from stepscope.storage import open_run

from ...command import printed

pytestmark = pytest.mark.slow

LAYERS = ((256, 512), (512, 512), (512, 10))
FLOAT = 4  # bytes
PARAMETERS = FLOAT * sum(inside * outside + outside for inside, outside in LAYERS)
BATCH = 64
# Each linear layer but the first saves its input for backward; relu saves its output, which is the same block.
ACTIVATIONS = FLOAT * BATCH * (512 + 512)

TRAIN = """
import torch
from torch import nn

kept = []

def train(leak):
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(64, 256)).square().mean()
        loss.backward()
        optimizer.step()
        if leak:
            kept.append(torch.zeros(1000))
        AFTER
"""
TRACED = """
from torch.profiler import ProfilerActivity, profile, schedule
whole = schedule(wait=0, warmup=0, active=100)
with profile(activities=[ProfilerActivity.CPU], schedule=whole, profile_memory=True, with_stack=True) as prof:
    train(LEAK)
prof.export_chrome_trace("trace.json")
"""


def traced(folder: Path, *, leak: bool) -> Run:
    script = TRAIN.replace("STEPS", "5").replace("AFTER", "prof.step()") + TRACED.replace("LEAK", str(leak))
    (folder / "train.py").write_text(script)
    subprocess.run([sys.executable, "train.py"], cwd=folder, check=True, timeout=300)
    return open_run(folder / "trace.json")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return traced(tmp_path_factory.mktemp("steady"), leak=False)


def test_categories_have_the_sizes_that_the_model_says(run: Run) -> None:
    held = dict(memory_at_peak(run).group_by("category").agg(pl.col("bytes").sum()).rows())
    whole = allocations(run)
    assert held["parameter"] == PARAMETERS
    state = whole.filter(pl.col("category") == "optimizer state")
    large = state.filter(pl.col("bytes") > FLOAT)  # besides the moments, Adam keeps a count of steps for each tensor
    assert large["bytes"].sum() == 2 * PARAMETERS
    gradients = whole.filter((pl.col("category") == "gradient") & (pl.col("step") == 2))
    assert gradients["bytes"].sum() == PARAMETERS
    saved = whole.filter((pl.col("category") == "activation") & (pl.col("step") == 2))
    assert saved["bytes"].sum() >= ACTIVATIONS


def test_the_peak_is_explained_by_lines_and_grows_only_where_it_leaks(run: Run, tmp_path: Path) -> None:
    (peak,) = memory_peaks(run).iter_rows(named=True)
    lines = memory_lines(run)
    assert lines["bytes"].sum() == memory_at_peak(run)["bytes"].sum() == peak["allocated"]
    assert "train.py" in {Path(file).name for file in lines["file"].drop_nulls()}
    assert peak["growth"] == 0
    (leaking,) = memory_peaks(traced(tmp_path, leak=True)).iter_rows(named=True)
    assert leaking["growth"] == 1000 * FLOAT


def test_operators_allocate_what_they_return(run: Run) -> None:
    rows = {row["name"]: row for row in memory_operators(run).iter_rows(named=True)}
    made = FLOAT * BATCH * (512 + 512 + 10)
    assert rows["aten::addmm"]["allocated_total"] == 5 * made
    assert rows["aten::randn"]["allocated_total"] == 5 * FLOAT * BATCH * 256


def test_a_recorded_run_has_the_views(tmp_path: Path) -> None:
    script = TRAIN.replace("STEPS", "30").replace("AFTER", "pass") + "train(False)\n"
    (tmp_path / "train.py").write_text(script)
    words = ("run", "--trace", "12:16", "--with", "memory,stacks", "--out", "r", "--", sys.executable, "train.py")
    printed(*words, cwd=tmp_path)
    run = open_run(tmp_path / "r")
    (peak,) = memory_peaks(run).iter_rows(named=True)
    assert peak["device_type"] == "CPU"
    assert peak["steps"] >= 3
    assert peak["growth"] == 0, "nothing that stepscope does keeps a tensor alive, or frees one unseen"
    held = dict(memory_at_peak(run).group_by("category").agg(pl.col("bytes").sum()).rows())
    assert held["gradient"] == PARAMETERS
    report = json.loads(printed("report", "r", "--format", "json", cwd=tmp_path))
    titles = {section["title"] for section in report["sections"]}
    assert "Memory" in titles
