"""The probe in the processes of a distributed job, which are timed."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Recording

pytestmark = pytest.mark.alone

JOBS = Path(__file__).parent / "jobs"
WARM_UP, STEPS = 3, 40
POINTS = 0.02


@pytest.mark.slow
@pytest.mark.parametrize("how", ["torchrun", "spawn"])
def test_two_ranks_one_of_which_reads_slowly(record: Callable[..., Recording], tmp_path: Path, how: str) -> None:
    job = str(JOBS / "ranks.py")
    command = {
        "torchrun": ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", job, str(tmp_path)],
        "spawn": [job, str(tmp_path), "spawn"],
    }[how]
    recording = record([sys.executable, *command])
    assert recording.end.code == 0
    assert [process.process["rank"] for process in recording.processes] == [0, 1]
    backward = []
    for rank, process in enumerate(recording.processes):
        steps = process.steps[WARM_UP:]
        truth = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        span = steps[-1].end - process.steps[WARM_UP - 1].end
        share = sum(step.data_wait for step in steps) / span
        assert len(process.steps) == STEPS
        assert share == pytest.approx(truth["data_wait"] / truth["duration"], abs=POINTS)
        assert process.process["rank_source"] == "torch.distributed"
        assert process.process["world_size"] == 2
        assert (process.fact("distributed")["backend"], process.fact("distributed")["world_size"]) == ("gloo", 2)
        backward.append(sum(step.backward for step in steps))
    assert backward[0] > backward[1]
