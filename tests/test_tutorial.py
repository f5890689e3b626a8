"""The script of the tutorial about the input pipeline: every stage trains, and what is fixed stays the same."""

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
    python(EXAMPLES / "image_classifier/make_data.py", "--data", tmp_path / "data", "--images", 20)
    told = python("-c", STAGE_BY_STAGE, EXAMPLES / "input_pipeline/train.py", tmp_path / "data/train", *script.STAGES)
    assert [line.split()[0] for line in told.splitlines()] == ["loss"] * len(script.STAGES)


STAGE_BY_STAGE = """
import runpy, sys
_, script, data, *stages = sys.argv
for stage in stages:
    sys.argv = [script, "--stage", stage, "--steps", "2", "--data", data]
    runpy.run_path(script, run_name="__main__")
"""  # in one process: importing torch takes longer than a stage


def python(*words: object) -> str:
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True, text=True).stdout
