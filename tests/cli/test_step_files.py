"""While a job runs, its older steps are merged and the room that they had is given back."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from stepscope.cli import _step_files
from stepscope.cli._step_files import StepFiles
from stepscope.importers.run_dir.records import STEP
from stepscope.storage import open_run

from ..importers.run_files import EPOCH, HEADER, MONOTONIC, write_process, write_run

COUNT = 1_300_000


@pytest.mark.slow
def test_large_files_of_steps_are_folded_while_the_job_runs(tmp_path: Path) -> None:
    path = write_process(write_run(tmp_path)) / "steps.bin"
    rows = np.zeros(COUNT, STEP.record)
    rows["step"] = np.arange(COUNT)
    rows["end"] = MONOTONIC + (rows["step"] + 1) * 1_000_000
    rows["start"] = rows["end"] - 1_000_000
    rows["forward"] = 400_000
    with path.open("wb") as file:
        file.write(HEADER.pack(b"STEPSCOPE-STEPS1", HEADER.size, STEP.record.itemsize, EPOCH, MONOTONIC))
        file.write(rows.tobytes())
    os.sync()
    room = path.stat().st_blocks
    files = StepFiles(str(tmp_path))
    deadline = time.monotonic() + 60
    while path.stat().st_blocks == room and time.monotonic() < deadline:
        for _ in range(_step_files.EVERY):
            files.tick()
        time.sleep(0.5)
    assert files._process is not None
    assert files._process.wait(60) == 0
    assert path.stat().st_blocks * 512 < _step_files.LARGE
    run = open_run([str(tmp_path)])
    assert run.optional("steps")["weight"].sum() == pytest.approx(COUNT, rel=1e-3)
    assert run.optional("steps").height < COUNT / 2


def test_small_files_are_left_alone(tmp_path: Path) -> None:
    write_process(write_run(tmp_path))
    files = StepFiles(str(tmp_path))
    for _ in range(3 * _step_files.EVERY):
        files.tick()
    assert files._process is None
