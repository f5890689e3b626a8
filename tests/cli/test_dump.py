"""`stepscope dump`: where the processes of a job are, read by py-spy from outside."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.observe.stacks import StackFrame, Thread, grouped, read_threads, tool

from ..command import printed, stepscope

SCRIPT = """
import os, threading, time

def save():
    print(flush=True)
    time.sleep(60)

def wait():
    print(flush=True)
    threading.Event().wait(60)

def train():
    save() if os.environ["RANK"] == "1" else wait()

train()
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[int]:
    """Three ranks below a shell, all but rank 1 in `wait`. Skips where one process may not read another."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    ranks = " ".join(f"RANK={rank} {sys.executable} {script} &" for rank in range(3))
    with subprocess.Popen(["sh", "-c", f"{ranks} wait"], stdout=subprocess.PIPE, start_new_session=True) as shell:
        assert shell.stdout
        for _ in range(3):
            shell.stdout.readline()
        spy = tool()
        assert spy, "py-spy is among the packages of tests"
        children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
        _, why = read_threads(spy, int(children[0]))
        if not why:
            yield shell.pid
        subprocess.run(["pkill", "-g", str(shell.pid)], check=True)
    if why:
        pytest.skip(f"py-spy may not read processes here: {why}")


def test_ranks_at_one_place_are_together_and_the_other_one_is_named(job: int) -> None:
    lines = printed("dump", job).splitlines()
    assert lines[0].startswith("rank 1 is not where most ranks are, but at ") and lines[0].endswith(
        "train.py:6 in save"
    )
    heads = [line for line in lines if "MainThread of " in line]
    assert [head.count("rank ") for head in heads] == [2, 1]
    own = [line.split("/")[-1] for line in lines if line.startswith(" ▶ ")]
    assert own == ["train.py:10 in wait", "train.py:6 in save"]
    groups = json.loads(printed("dump", job, "--json"))["groups"]
    assert [[one["name"] for one in group["processes"]] for group in groups] == [["rank 0", "rank 2"], ["rank 1"]]
    assert groups[1]["frames"][0]["function"] == "save"


def test_a_process_without_python_is_told() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        done = stepscope("dump", sleeper.pid)
        sleeper.kill()
    assert done.returncode == 2 and "no process below it runs Python" in done.stderr


def test_a_process_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    refusing, lying = tmp_path / "refusing", tmp_path / "lying"
    refusing.write_text("#!/bin/sh\necho 'Error: Permission Denied' >&2; exit 1\n")
    lying.write_text("#!/bin/sh\necho '[{}]'\n")
    for script in (refusing, lying):
        script.chmod(0o755)
    assert read_threads(str(refusing), 1) == ((), "Permission Denied")
    assert read_threads(str(lying), 1)[1].startswith("py-spy's answer cannot be read")


def test_threads_of_the_probe_and_of_libraries_are_told_from_the_job_s(tmp_path: Path) -> None:
    frames = [
        ("/env/lib/python3.11/site-packages/torch/nn/functional.py", 9, "linear"),
        ("<frozen importlib._bootstrap, and stepscope: hooks.py>", 1, "hook"),
        ("/home/me/train.py", 7, "forward"),
        ("/env/bin/torchrun", 6, "<module>"),
    ]
    rows = [
        {"thread_name": "MainThread", "active": True, "owns_gil": True, "frames": _told(frames)},
        {
            "thread_name": None,
            "active": True,
            "owns_gil": False,
            "frames": _told([("/x/stepscope/collect/a.py", 1, "f")]),
        },
    ]
    (tmp_path / "answer").write_text(json.dumps(rows))
    (tmp_path / "spy").write_text(f"#!/bin/sh\ncat {tmp_path}/answer\n")
    (tmp_path / "spy").chmod(0o755)
    (thread,), why = read_threads(str(tmp_path / "spy"), 3)
    assert why == ""
    assert [(frame.short, frame.of_user) for frame in thread.frames] == [
        ("torch/nn/functional.py", False), ("/home/me/train.py", True), ("/env/bin/torchrun", False),
    ]  # fmt: skip
    (group,) = grouped([thread])
    assert group.own == StackFrame("/home/me/train.py", 7, "forward")


def test_groups_are_of_equal_stacks_main_threads_first() -> None:
    here, there = (StackFrame("a.py", 1, "f"),), (StackFrame("a.py", 2, "f"),)
    threads = [
        Thread(pid=pid, name=name, active=True, owns_gil=False, frames=frames)
        for pid, name, frames in (
            (1, "loader", here),
            (1, "MainThread", here),
            (2, "MainThread", there),
            (3, "MainThread", there),
        )
    ]
    assert [(group.name, [one.pid for one in group.threads]) for group in grouped(threads)] == [
        ("MainThread", [2, 3]), ("MainThread", [1]), ("loader", [1]),
    ]  # fmt: skip


def _told(frames: list[tuple[str, int, str]]) -> list[dict[str, object]]:
    return [{"filename": file, "line": line, "name": name} for file, line, name in frames]
