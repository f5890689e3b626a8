"""A real training recorded with `--with stacks,modules`: what a user gets on each level of zoom."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ...command import printed

pytestmark = pytest.mark.slow

SCRIPT = """
import torch
from torch.utils.checkpoint import checkpoint


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())

    def forward(self, x):
        return checkpoint(self.layers, x, use_reentrant=False)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(32, 64)
        self.block = Block()

    def forward(self, x):
        return self.block(self.first(x))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(30):
    model(torch.randn(16, 32)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modules")
    (folder / "train.py").write_text(SCRIPT)
    run = folder / "run"
    words = ("--no-report", "--out", run, "--trace", "10:13", "--with", "stacks,modules")
    printed("run", *words, "--", sys.executable, folder / "train.py")
    return run


def rows(run: Path, analysis: str, *words: str) -> list[dict[str, Any]]:
    document = json.loads(printed("show", analysis, run, "--format", "json", *words))
    return list(document["rows"])


def test_forward_backward_and_recomputation_of_each_module(recorded: Path) -> None:
    found = {(row["module"], row["pass"]): row for row in rows(recorded, "modules")}
    paths = ("Net_0", "Net_0.Linear_0", "Net_0.Block_0", "Net_0.Block_0.Sequential_0")
    for path in paths:
        assert found[path, "forward"]["calls"] == 3
        assert found[path, "backward"]["calls"] == 3
        assert found[path, "backward"]["host_total"] > 0
        assert found[path, "forward"]["device_total"] is None
    assert found["Net_0.Block_0.Sequential_0", "recompute"]["calls"] == 3
    roots = [row for row in found.values() if row["depth"] == 0]
    assert sum(row["host_self"] for row in found.values()) == sum(row["host_total"] for row in roots)


def test_from_a_step_down_to_the_operators(recorded: Path) -> None:
    (step, *_) = {row["step"] for row in rows(recorded, "module_steps")}
    of_step = rows(recorded, "module_steps", "--where", f"step={step}", "--where", "pass=forward", "--where", "depth=1")
    assert [row["module"] for row in of_step] == ["Net_0.Linear_0", "Net_0.Block_0"]
    words = ("--where", "module=Net_0.Linear_0", "--where", "pass=forward", "--sort", "host_total")
    (first, *_) = rows(recorded, "module_operators", *words)
    assert (first["name"], first["calls"], first["per_step"]) == ("aten::linear", 3, 1.0)
    (autograd, *_) = rows(
        recorded, "module_operators", "--where", "module=*.Linear_0", "--where", "name=autograd*Addmm*"
    )
    assert autograd["pass"] == "backward"
    report = printed("report", recorded, "--full")
    assert "Net_0.Block_0.Sequential_0" in report
