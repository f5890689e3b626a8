"""A trial ends when it is told to, and leaves no process behind, wherever the job has started it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.collect import trial
from stepscope.collect.trial import OUTPUT, run_until
from stepscope.run_format.options import RecordingOptions

from ..command import command

CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.{how}); print('child', flush=True); time.sleep(600)"
JOB = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
print(repr(sys.stdin.read()), "started", flush=True)
time.sleep(600)
"""


def left_of(folder: Path) -> Iterator[int]:
    mark = f"STEPSCOPE_RUN_DIR={folder}\0".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in Path("/proc", name, "environ").read_bytes():
                yield int(name)
        except OSError:
            continue


@pytest.mark.parametrize("how", ["SIG_DFL", "SIG_IGN"])
def test_a_job_with_a_child_in_another_session_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(trial, "_REST_S", 0.3)
    folder = tmp_path / "run"
    job = JOB.format(child=CHILD.format(how=how))

    def started() -> bool:
        return "started" in (folder / OUTPUT).read_text()

    end = run_until([sys.executable, "-c", job], str(folder), RecordingOptions(), started)
    assert (end.cut, end.code, end.why_not) == (True, None, None)
    assert list(left_of(folder)) == []
    assert (folder / OUTPUT).read_text() == "'' started\n"
    assert json.loads((folder / "end.json").read_text())["signal"] == signal.SIGTERM


def test_a_job_that_ends_by_itself_is_waited_for(tmp_path: Path) -> None:
    end = run_until(
        [sys.executable, "-c", "raise SystemExit(3)"], str(tmp_path / "run"), RecordingOptions(), lambda: False
    )
    assert (end.cut, end.code) == (False, 3)
    assert json.loads((tmp_path / "run" / "end.json").read_text())["exit_code"] == 3


def test_a_program_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    end = run_until([str(tmp_path)], str(tmp_path / "run"), RecordingOptions(), lambda: False)
    assert end.why_not == f"{tmp_path}: Permission denied"
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot write"):
        run_until(["true"], str(tmp_path / "file" / "run"), RecordingOptions(), lambda: False)


def test_ctrl_c_while_the_job_is_being_started_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, begun = tmp_path / "run", []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options)  # type: ignore[call-overload]
            while list(left_of(folder)) != [self.pid]:  # the kernel shows the variables of a program a little later
                assert self.poll() is None
            begun.append(self)
            raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_until(["sleep", "600"], str(folder), RecordingOptions(), lambda: False)
    assert list(left_of(folder)) == []
    assert begun[0].wait() == -signal.SIGTERM


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_tuning_that_is_stopped_ends_its_job(tmp_path: Path, number: int, code: int) -> None:
    words = command("tune", "loader", "--out", "trials", "--", sys.executable, "-c", "import time; time.sleep(600)")
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tuning:
        folder = tmp_path / "trials" / "01-as-it-is"
        while not list(left_of(folder)):
            assert tuning.poll() is None
            time.sleep(0.1)
        tuning.send_signal(number)
        _, told = tuning.communicate(timeout=60)
    assert tuning.returncode == code
    assert b"Traceback" not in told
    assert b"the trials so far are in " in told
    assert list(left_of(folder)) == []
