"""Which Pythons of a job run without the probe: real processes, whose torch is a file of its name."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.observe.unprobed import Unprobed, UnprobedWatch

INJECT, VARIABLE = "/opt/inject", "STEPSCOPE_RUN_DIR"
CODE = """
import mmap, sys, time
file = open("libtorch_python.so", "rb")
held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if "torch" in sys.argv else None
open("ready", "w").write("x")
time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "libtorch_python.so").write_bytes(b"x" * 4096)
    (tmp_path / "job.py").write_text(CODE)
    return tmp_path


@pytest.fixture
def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": f"{INJECT}:/more", VARIABLE: "/run"}


def looked_at(folder: Path, command: list[str], environment: dict[str, str]) -> Iterator[Unprobed]:
    """What is found of the process that `command` starts, at the first look."""
    with subprocess.Popen(command, cwd=folder, env=environment) as process:
        try:
            while not (folder / "ready").exists():
                time.sleep(0.01)
            listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True)
            children = [int(pid) for pid in listed.stdout.split()]
            watch = UnprobedWatch(INJECT, VARIABLE)
            yield from watch.look([process.pid, *children])
            assert watch.look([process.pid, *children]) == []  # each once
        finally:
            subprocess.run(["pkill", "-P", str(process.pid)], check=False)
            process.kill()


def test_one_with_the_probe_or_without_torch_is_none(folder: Path, environment: dict[str, str]) -> None:
    assert list(looked_at(folder, [sys.executable, "job.py", "torch"], environment)) == []
    (folder / "ready").unlink()
    assert list(looked_at(folder, [sys.executable, "-I", "job.py"], environment)) == []


@pytest.mark.parametrize("option", ["-I", "-E", "-uS"])
def test_options_that_keep_the_probe_out(folder: Path, environment: dict[str, str], option: str) -> None:
    words = [sys.executable, "-W", "ignore", option, "job.py", "torch"]
    (found,) = looked_at(folder, words, environment)
    assert found.command == tuple(words)
    assert (found.why, found.advice) == (
        f"Python runs with {option}, which keeps PYTHONPATH out",
        f"leave out {option}",
    )


def test_the_line_of_the_script_that_sets_the_variable(folder: Path, environment: dict[str, str]) -> None:
    (folder / "train.sh").write_text(
        f"set -e\nexport A=1 # PYTHONPATH=no\nPYTHONPATH=src:. {sys.executable} job.py torch\necho done\n"
    )
    (found,) = looked_at(folder, ["bash", "train.sh"], environment)
    assert found.why == "train.sh:3 sets `PYTHONPATH=src:.`"
    assert found.advice == 'write `PYTHONPATH="src:.:$PYTHONPATH"` in train.sh:3'


def test_a_variable_set_by_nobody_knows_whom_and_a_cleared_environment(
    folder: Path, environment: dict[str, str]
) -> None:
    (found,) = looked_at(folder, [sys.executable, "job.py", "torch"], {**environment, "PYTHONPATH": "."})
    assert found.why == "PYTHONPATH was set to '.'"
    (folder / "ready").unlink()
    (found,) = looked_at(folder, [sys.executable, "job.py", "torch"], {"PATH": os.environ["PATH"]})
    assert found.why == "its environment was cleared"
