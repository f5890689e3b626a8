"""The process that is started while a job ends: it says what one started later would say, or another does."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from stepscope.cli._report_process import NOT_TOLD, ReportProcess
from stepscope.collect.recorder import leave_ending
from stepscope.run_format.files import ENDINGS

from ..command import PATIENCE, command, stepscope

pytestmark = pytest.mark.slow

RUN = {"format": "stepscope-run", "version": 1, "command": ["true"], "cwd": "/", "host": "h", "options": {}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder of a job that made no step."""
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    (tmp_path / "end.json").write_text(json.dumps({"exit_code": 0, "signal": None, "not_recorded": []}))
    return tmp_path


def standing_by(run: Path) -> subprocess.Popen[str]:
    words = command("report", "--report-process", "--", run)
    return subprocess.Popen(
        words, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )  # fmt: skip


def test_it_says_what_a_process_says_that_is_started_later(run: Path) -> None:
    said = standing_by(run).communicate("go\n", timeout=PATIENCE)
    now = stepscope("report", "--", run)
    assert said == (now.stdout, now.stderr)
    assert "No step was recorded" in now.stdout


def test_without_a_word_it_ends_in_silence(run: Path) -> None:
    process = standing_by(run)
    assert process.communicate("", timeout=PATIENCE) == ("", "")
    assert process.returncode == NOT_TOLD


def test_it_is_started_when_a_process_of_the_job_begins_to_end(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report_process = ReportProcess(str(run))
    report_process.watch()
    assert vars(report_process)["_process"] is None
    leave_ending(str(run), 4711)
    assert json.loads((run / ENDINGS).read_text())["pid"] == 4711
    report_process.watch()
    first = report_process._process
    report_process.watch()
    assert first is not None
    assert report_process._process is first
    assert report_process.verdict() == (0, "")
    assert first.returncode == 0
    assert capfd.readouterr().err == stepscope("report", "--", run).stdout


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_another_takes_the_place_of_one_that_is_gone(
    run: Path, capfd: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    leave_ending(str(run), 4711)
    report_process = ReportProcess(str(run))
    report_process.watch()
    assert report_process._process is not None
    report_process._process.send_signal(number)
    report_process._process.wait(PATIENCE)
    assert report_process.verdict() == (0, "")
    assert capfd.readouterr().err == stepscope("report", "--", run).stdout


def test_a_ctrl_c_that_ended_the_job_does_not_end_the_verdict(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    leave_ending(str(run), 4711)
    report_process = ReportProcess(str(run))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # as while the job runs
    try:
        report_process.watch()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert report_process._process is not None
    report_process._process.send_signal(signal.SIGINT)
    assert report_process.verdict() == (0, "")
    assert report_process._process.returncode == 0
    assert capfd.readouterr().err == stepscope("report", "--", run).stdout
