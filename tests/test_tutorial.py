"""The script of the tutorial about the input pipeline: every stage trains, and what is mended stays the same."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from .command import PATIENCE

torch = pytest.importorskip("torch")
EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tutorial", EXAMPLES / "input_pipeline/train.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_both_dilations_are_equal(script: ModuleType) -> None:
    torch.manual_seed(0)
    for size in ((40, 60), (7, 7), (13, 200)):
        mask = torch.rand(size) < 0.02
        assert torch.equal(script.dilated(mask, 6), script.dilated_booleans(mask, 6))


@pytest.mark.slow
def test_every_stage_trains(script: ModuleType, tmp_path: Path) -> None:
    python("image_classifier/make_data.py", "--data", tmp_path / "data", "--images", 20)
    for stage in script.STAGES:
        words = ("--stage", stage, "--steps", 2, "--data", tmp_path / "data/train")
        assert python("input_pipeline/train.py", *words).startswith("loss ")


def python(name: str, *words: object) -> str:
    command = [sys.executable, str(EXAMPLES / name), *map(str, words)]
    return subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True, text=True).stdout
