"""Runs a job bare and under `stepscope run`, so that a test can compare all that the job does."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from stepscope.collect.launch import Exit

from ..collect.conftest import Recording, read_recording

JOBS = Path(__file__).parent / "jobs"
OURS = "stepscope: "  # the launcher's own lines on stderr begin like this
PEAK = "peak.kb"  # a job that is compared in memory writes its own peak (VmHWM, kB) into this file
QUIET = ("--quiet", "--no-report")


@dataclass(frozen=True)
class Outcome:
    """What one run of a job left behind. `err` is without the launcher's lines, `files` has a digest for each."""

    code: int
    out: str
    err: str
    files: dict[str, str]
    peak_kb: int | None

    @property
    def seen(self) -> tuple[int, str, str, dict[str, str]]:
        """All that must be the same, bare and recorded."""
        return self.code, self.out, self.err, self.files


@dataclass(frozen=True)
class Both:
    """The same job, bare and recorded."""

    bare: Outcome
    recorded: Outcome
    recording: Recording

    @property
    def steps(self) -> list[int]:
        """How many steps each process has recorded."""
        return [len(process.steps) for process in self.recording.processes]

    @property
    def notes(self) -> list[str]:
        """What was not recorded, of all processes."""
        beside = self.recording.folder / "notes.jsonl"
        texts = [beside.read_text(encoding="utf-8")] if beside.exists() else []
        return [*texts, *(str(note) for process in self.recording.processes for note in process.notes)]


def run_in(folder: Path, command: list[str], environment: Mapping[str, str]) -> Outcome:
    """Run `command` in a new `folder`."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        command, cwd=folder, env=dict(environment), capture_output=True, text=True, timeout=300, check=False
    )
    peak = folder / PEAK
    peak_kb = int(peak.read_text()) if peak.exists() else None
    files = {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file != peak
    }
    said = "".join(line for line in done.stderr.splitlines(keepends=True) if not line.startswith(OURS))
    return Outcome(done.returncode, done.stdout, said, files, peak_kb)


@pytest.fixture
def both(tmp_path: Path) -> Callable[..., Both]:
    """both("job.py", "argument", …) runs a job of tests/harm/jobs bare, then under `stepscope run` with `options`."""

    def run(
        job: str, *arguments: str, options: tuple[str, ...] = QUIET, environment: Mapping[str, str] | None = None
    ) -> Both:
        command = [sys.executable, str(JOBS / job), *arguments]
        surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
        bare = run_in(tmp_path / "bare" / "work", command, surroundings)
        run_dir = tmp_path / "run"
        launcher = [sys.executable, "-m", "stepscope", "run", *options, "--out", str(run_dir), "--"]
        recorded = run_in(tmp_path / "recorded" / "work", [*launcher, *command], surroundings)
        end = Exit(code=recorded.code, signal=None, wall_ns=0)
        return Both(bare, recorded, read_recording(run_dir, end))

    return run
