"""What happens to the exit code, and to the job, when a signal comes at another time than the job expects one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ..command import PATIENCE, command, stepscope


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.002)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_after_the_jobs_end_leaves_the_exit_code(tmp_path: Path, number: signal.Signals) -> None:
    words = command("run", "--out", tmp_path / "r", "--", "sh", "-c", "exit 3")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    wait_until((tmp_path / "r" / "end.json").exists)  # the verdict is made now
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 3


def test_a_job_outlives_a_killed_stepscope_and_the_report_says_so(tmp_path: Path) -> None:
    code = (
        "import os, time; open('pid', 'w').write('x')\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "open('done', 'w').write('x')"
    )
    words = command("run", "--out", "r", "--", sys.executable, "-c", code)
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
    wait_until((tmp_path / "pid").exists)
    running = stepscope("report", "r", "--format", "json", cwd=tmp_path)
    assert "killed" not in running.stdout
    process.kill()
    process.wait()
    (tmp_path / "go").touch()
    wait_until((tmp_path / "done").exists)
    assert not (tmp_path / "r" / "end.json").exists()
    said = stepscope("report", "r", cwd=tmp_path)
    assert "stepscope was killed before the job ended" in " ".join(said.stdout.split())
    assert os.listdir(tmp_path / "r")
    assert json.loads((tmp_path / "r" / "run.json").read_text())["launcher"]["pid"] == process.pid
