"""`stepscope top`: real processes, seen for a second."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stepscope.cli.top import _fitting

from ..command import printed, stepscope

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
BURN = "import os\nwhile True: os.times()"


def test_a_process_and_its_children_are_shown_with_what_they_use() -> None:
    children = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {BURN!r}]); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", children], start_new_session=True) as job:
        row = json.loads(printed("top", job.pid, "--json", "--once"))
        text = printed("top", job.pid, "--once", "--every", "0.3")
        subprocess.run(["pkill", "-g", str(job.pid)], check=True)
    sleeper, burner = row["processes"]
    assert (sleeper["now"]["pid"], burner["now"]["parent"], burner["depth"]) == (job.pid, job.pid, 1)
    assert sleeper["cpu"] < 0.2 < burner["cpu"] <= 1.05
    assert burner["cpu"] + (burner["waited"] or 0) > 0.85  # it computes, or waits for a core that others have
    assert 0.9 < row["machine"]["seconds"] < 3
    head, *_ = text.splitlines()
    assert " in use · memory " in head
    assert "Processes" in text and f"{job.pid}" in text and "runs" in text


def test_without_a_process_the_machine_is_shown_and_readings_are_counted() -> None:
    lines = printed("top", "--json", "--count", "2", "--every", "0.1").splitlines()
    assert [json.loads(line)["schema"] for line in lines] == ["stepscope-top"] * 2
    assert len(printed("top", "--once", "--every", "0.1").partition("Processes")[2].splitlines()) <= 17


def test_a_small_screen_shows_the_first_lines() -> None:
    text = "".join(f"{number}\n" for number in range(30))
    assert _fitting(text, 40) == text
    assert _fitting(text, 10).splitlines() == [*map(str, range(8)), "… 22 lines more with --once"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("999999999",), "there is none here"),
        (("no-such-folder",), "is no process and no folder of a recorded job"),
        (("--every", "0"), "every"),
    ],
)
def test_what_cannot_be_shown_is_said(words: tuple[str, ...], why: str) -> None:
    done = stepscope("top", *words)
    assert done.returncode == 2
    assert why in done.stderr and "stepscope top" in done.stderr


def test_a_job_that_has_ended_has_a_report(tmp_path: Path) -> None:
    launcher = {"launcher": {"pid": 1, "start_ticks": 999_999_999_999}}
    (tmp_path / "run.json").write_text(json.dumps(launcher))
    done = stepscope("top", tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1].strip()) == (2, f"stepscope report {tmp_path}")


@pytest.mark.slow
def test_a_job_that_is_recorded_is_shown_with_its_steps_and_ends_with_it(tmp_path: Path) -> None:
    script = "import time, torch, stepscope\nfor _ in range(400):\n    time.sleep(0.01)\n    stepscope.step()\n"
    (tmp_path / "train.py").write_text(script)
    run = tmp_path / "run"
    words = (
        "-m",
        "stepscope",
        "run",
        "--quiet",
        "--no-report",
        "--out",
        run,
        "--",
        sys.executable,
        tmp_path / "train.py",
    )
    with subprocess.Popen([sys.executable, *map(str, words)]) as job:
        while not list(run.glob("rank-*/steps.bin")) and job.poll() is None:
            time.sleep(0.05)
        done = stepscope("top", run, "--every", "0.5")
    assert done.returncode == 0 and "has ended" in done.stderr
    assert " per step · " in done.stdout and "Host-bound" in done.stdout
