"""`stepscope predict loader` of real training with real workers."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from stepscope.cli import predict
from stepscope.cli.main import COMMANDS

from ..command import stepscope
from ..predict.recorded_loading import MS, recorded

SCRIPT = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Far(Dataset):
    def __len__(self):
        return 160

    def __getitem__(self, i):
        time.sleep(0.01)
        return torch.randn(8)

torch.set_num_threads(1)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(Far(), batch_size=4, num_workers=1):
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
"""


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any path is a run whose two workers take 40 ms for a batch, and training 10."""
    monkeypatch.setattr(predict, "_opened", lambda path: recorded())


def said(*words: str) -> str:
    done = CliRunner().invoke(COMMANDS, ["predict", "loader", "RUN", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.usefixtures("known")
def test_formats() -> None:
    lines = said("--workers", "1,2,4").splitlines()
    assert lines[0].split() == ["workers", "step", "low", "high", "saved", "limited_by", "recorded"]
    assert lines[2].split() == ["2", "20", "ms", "20", "ms", "20", "ms", "0", "ns", "workers", "yes"]
    rows = json.loads(said("--workers", "1,2,4", "--format", "json"))["rows"]
    assert [row["workers"] for row in rows] == [1, 2, 4]
    assert rows[1]["step"] == 20 * MS
    assert said("--workers", "2", "--format", "csv").startswith("rank,workers,step,low,high,saved,limited_by")
    assert said("--workers", "2", "--format", "markdown").startswith("| workers | step |")


@pytest.mark.usefixtures("known")
def test_changes(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    assert said("--workers", "2", "--faster", "Blur=4", "-o", str(target)) == ""
    (row,) = json.loads(target.read_text())["rows"]
    assert row["step"] == pytest.approx(12.5 * MS, rel=0.05)
    (row,) = json.loads(said("--workers", "2", "--without", "fetch", "--format", "json"))["rows"]
    assert row["limited_by"] == "training"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    (folder / "train.py").write_text(SCRIPT)
    words = ("run", "--quiet", "--loader", "all", "--trace", "none", "--out", "r", "--", sys.executable, "train.py")
    assert stepscope(*words, cwd=folder).returncode == 0
    return folder / "r"


@pytest.mark.slow
def test_rows_for_workers(run: Path) -> None:
    done = stepscope("predict", "loader", run, "--workers", "1,4", "--format", "json")
    if "undisturbed" in done.stderr or "off by" in done.stderr:
        pytest.skip("other programs have this machine")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    one, four = document["rows"]
    assert document["analysis"] == "loader_prediction"
    assert one["recorded"]
    assert one["saved"] == 0
    assert four["step"] < 0.5 * one["step"], "reads that wait are hidden by workers on any number of cores"
    assert four["low"] <= four["step"] <= four["high"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workers", "4:2"], "'4:2' is no number of workers from 0 to 64"),
        (["--workers", "65"], "write --workers 4, --workers 1,2,4 or --workers 0:16"),
        (["--faster", "Blur"], "'Blur' is not NAME=NUMBER"),
        (["--faster", "Blur=0"], "write --faster RandomMask=10"),
    ],
)
def test_a_mistake_is_told(words: list[str], message: str) -> None:
    done = stepscope("predict", "loader", "RUN", *words)
    assert done.returncode == 2
    assert message in done.stderr
