"""The probe in compiled code."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Recording

WHOLE_TORCH = True

JOBS = Path(__file__).parent / "jobs"


@pytest.mark.slow
def test_a_compiled_model_and_a_compiled_step_are_compiled_as_without_us(
    record: Callable[..., Recording], tmp_path: Path
) -> None:
    bare, seen = tmp_path / "bare.json", tmp_path / "seen.json"
    command = [sys.executable, str(JOBS / "compiled.py")]
    subprocess.run([*command, str(bare)], check=True, capture_output=True)
    recording = record([*command, str(seen)])
    assert json.loads(seen.read_text())["model"] == json.loads(bare.read_text())["model"]
    assert json.loads(seen.read_text())["loader"] == json.loads(bare.read_text())["loader"]
    with_us, without = json.loads(seen.read_text())["optimizer"], json.loads(bare.read_text())["optimizer"]
    assert with_us["breaks"] <= without["breaks"]
    assert {name: with_us[name] for name in ("unique_graphs", "calls_captured")} == {
        name: without[name] for name in ("unique_graphs", "calls_captured")
    }
    assert [step.micro_batches for step in recording.only.steps] == [1] * 8
