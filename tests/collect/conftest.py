"""Runs real jobs under the launcher and reads what they recorded, without the analyzer."""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stepscope.collect.dataloader.batch_recorder import BatchRecorder
from stepscope.collect.dataloader.spans import SpanFile
from stepscope.collect.launch import Exit, launch
from stepscope.collect.mmap_file import reserves
from stepscope.run_format.options import RecordingOptions

from .fake_job import KINDS, Job, Optimizer, Source, probe

HEADER = struct.Struct("<16sIIqqq16x")
RECORD = struct.Struct("<qqqqqqqqqqiI")


class Step(NamedTuple):
    """One record of steps.bin, in the order of the file."""

    step: int
    start: int
    end: int
    data_wait: int
    forward: int
    backward: int
    optimizer: int
    evaluation_wait: int
    gc: int
    samples: int
    micro_batches: int
    flags: int

    @property
    def duration(self) -> int:
        return self.end - self.start

    @property
    def other(self) -> int:
        return self.duration - max(0, self.data_wait) - self.forward - self.backward - self.optimizer


@dataclass(frozen=True)
class Process:
    """The folder of one process that trained."""

    folder: Path
    facts: list[dict[str, Any]]
    notes: list[dict[str, Any]]
    process: dict[str, Any]
    steps: list[Step]

    def fact(self, kind: str) -> dict[str, Any]:
        """The only fact of this kind."""
        (found,) = [fact for fact in self.facts if fact["kind"] == kind]
        return found


@dataclass(frozen=True)
class Recording:
    """A run folder, and how the job ended."""

    folder: Path
    end: Exit
    processes: list[Process]

    @property
    def only(self) -> Process:
        """The process of a job with one."""
        (process,) = self.processes
        return process


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file; blanks are no rows."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def steps_of(path: Path) -> list[Step]:
    """All whole records of a steps.bin."""
    content = path.read_bytes()
    magic, header_size, record_size, _, _, complete = HEADER.unpack_from(content)
    assert (magic, header_size, record_size) == (b"STEPSCOPE-STEPS1", HEADER.size, RECORD.size)
    whole = complete or (len(content) - header_size) // record_size
    steps = [Step(*RECORD.unpack_from(content, header_size + index * record_size)) for index in range(whole)]
    return [step for step in steps if complete or step.end]


def read_recording(folder: Path, end: Exit) -> Recording:
    """Everything in a run folder that the probe wrote."""
    processes = [
        Process(
            folder=rank,
            facts=lines_of(rank / "facts.jsonl"),
            notes=lines_of(rank / "notes.jsonl"),
            process=json.loads((rank / "process.json").read_text(encoding="utf-8")),
            steps=steps_of(rank / "steps.bin"),
        )
        for rank in sorted(folder.glob("rank-*"))
    ]
    return Recording(folder, end, processes)


@pytest.fixture(scope="session")
def record(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Recording]:
    """record(command) runs it under the launcher, without trace and lines, and reads the run folder."""

    def run(command: list[str]) -> Recording:
        folder = tmp_path_factory.mktemp("run") / "out"
        end = launch(command, str(folder), RecordingOptions())
        return read_recording(folder, end)

    return run


@pytest.fixture
def recorder(tmp_path: Path) -> BatchRecorder:
    """The recorder of an iterator without workers, with a file of spans of its own."""
    if not reserves(str(tmp_path)):
        pytest.skip("needs a file system that reserves blocks")
    return BatchRecorder(SpanFile(str(tmp_path / "main-1-2"), {"kind": "main"}), 1)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of hooks there is."""
    name: str = request.param
    probe(name)
    return name


@pytest.fixture
def job(kind: str) -> Job:
    return Job(kind)


@pytest.fixture
def trained(job: Job) -> tuple[Job, Source, Optimizer]:
    """A job that has made its first step."""
    optimizer = Optimizer()
    source = job.loader()
    job.train(source, optimizer)
    return job, source, optimizer
