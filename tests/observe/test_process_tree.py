"""Processes as /proc tells them: real ones, and files that say little."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stepscope.observe.process_tree import read_processes, read_tree

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")


BURN = """
import time
while time.process_time() < 0.3: pass
print(flush=True)
time.sleep(60)
"""


def test_a_tree_is_a_process_and_all_below_it_with_what_each_has_used() -> None:
    shell = f"RANK=3 {sys.executable} -c '{BURN}' & wait"
    with subprocess.Popen(["sh", "-c", shell], stdout=subprocess.PIPE) as job:
        assert job.stdout
        job.stdout.readline()
        tree = read_tree(job.pid)
        subprocess.run(["pkill", "-P", str(job.pid)], check=True)
    parent, burner = tree
    assert (parent.pid, burner.parent, parent.rank, burner.rank) == (job.pid, job.pid, None, 3)
    assert 250_000_000 < burner.cpu < 600_000_000  # and the start of Python
    assert burner.rss > 5_000_000 and burner.threads == 1 and burner.state in "SR" and not burner.worker
    assert "time.process_time()" in burner.command
    assert burner.waited is not None and burner.call_read and burner.switches is not None


def test_a_process_that_has_ended_is_no_tree() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert read_tree(ended.pid) == ()


def test_a_process_that_nobody_waited_for_is_told_as_ended() -> None:
    child = subprocess.Popen(["true"])
    for _ in range(100):
        (found,) = [one for one in read_tree(os.getpid()) if one.pid == child.pid]
        if found.state == "Z":
            break
        time.sleep(0.02)
    child.wait()
    assert (found.state, found.command, found.name) == ("Z", "", "true")


def test_what_may_not_be_read_is_unknown_and_not_nothing(tmp_path: Path) -> None:
    """Another user's process hides its I/O and its environment; an old kernel has no schedstat."""
    folder = tmp_path / "42"
    folder.mkdir()
    fields = "S 1 42 42 0 -1 0 7 0 3 0 120 30 0 0 20 0 9 0 5000 123456 100"
    (folder / "stat").write_text(f"42 (a (name) with) brackets) {fields} " + "0 " * 20)
    (folder / "cmdline").write_text("python\0train.py\0")
    (one,) = read_processes(tmp_path)
    tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    assert (one.name, one.command, one.parent, one.threads, one.major_faults) == (
        "a (name) with) brackets", "python train.py", 1, 9, 3,
    )  # fmt: skip
    assert (one.cpu, one.started, one.rss) == (150 * tick, 5000, 100 * os.sysconf("SC_PAGE_SIZE"))
    assert (one.read, one.written, one.waited, one.switches, one.rank) == (None, None, None, None, None)
    (folder / "stat").write_text("42 (cut")
    assert read_processes(tmp_path) == ()


def test_workers_of_a_loader_are_told_from_other_processes(tmp_path: Path) -> None:
    for pid, name in ((2, "python"), (3, "pt_data_worker")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) S 1 " + "0 " * 30)
    assert [(one.pid, one.worker) for one in read_processes(tmp_path)] == [(2, False), (3, True)]


def test_each_process_is_followed_by_its_children(tmp_path: Path) -> None:
    for pid, parent in ((1, 0), (2, 1), (3, 1), (4, 2), (5, 3)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (python) S {parent} " + "0 " * 30)
    assert [one.pid for one in read_tree(1, tmp_path)] == [1, 2, 4, 3, 5]
