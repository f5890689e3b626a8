"""Opening many ranks from the command line: its options, its progress, and its end by Ctrl-C."""

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stepscope.cli._progress import Reading

from ..command import command, stepscope

pytestmark = pytest.mark.slow

RANKS = 24  # small ones, of which so many are shared among processes
AT_ONCE = 8  # seconds of CPU time; starting takes one, and the whole report more than thirty


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ranks of three steps each, one of them in a file whose name only says its rank."""
    return write(tmp_path_factory.mktemp("ranks"), RANKS)


@pytest.fixture(scope="module")
def summary(folder: Path) -> subprocess.CompletedProcess[str]:
    """What is said of the folder where both outputs are pipes."""
    return stepscope("report", folder)


def write(path: Path, ranks: int) -> Path:
    for rank in range(ranks):
        events = [
            {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": 1000 * step + start, "dur": length}
            for step in range(3)
            for category, name, start, length in (
                ("user_annotation", f"ProfilerStep#{step}", 0, 1000),
                ("cpu_op", "aten::mm", 100 + rank, 500),
            )
        ]
        header = {"distributedInfo": {"rank": rank, "world_size": ranks}} if rank else {}
        text = json.dumps({"schemaVersion": 1, **header, "traceEvents": events})
        (path / f"{'part' if rank else 'rank'}_{rank}.json").write_text(text)
    return path


def test_any_number_of_workers_gives_the_same(folder: Path) -> None:
    one, three = (stepscope("show", "operators", folder, "--format", "csv", "--jobs", workers) for workers in (1, 3))
    assert (one.returncode, one.stderr) == (three.returncode, three.stderr) == (0, "")
    assert one.stdout == three.stdout
    assert len(one.stdout.splitlines()) == RANKS + 1


def test_patterns_and_several_paths(folder: Path) -> None:
    found = stepscope("show", "timer", f"{folder}/part_1*.json", folder / "part_2.json", "--format", "csv")
    assert found.stderr == ""
    ranks = [int(line.split(",")[0]) for line in found.stdout.splitlines()[1:]]
    assert ranks == [1, 2, *range(10, 20)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--jobs", "2", "--dask", "tcp://h:1"), "--dask: cannot be given together with --jobs"),
        (("--jobs", "0"), "nvalid value for '-j' / '--jobs'"),
        (("--dask", "somewhere"), "somewhere: no address of a scheduler"),
    ],
)
def test_options_that_cannot_be_used(folder: Path, words: tuple[str, ...], said: str) -> None:
    found = stepscope("report", folder, *words)
    assert found.returncode == 2
    assert said in found.stderr and "Traceback" not in found.stderr


def test_progress_on_a_terminal_is_gone_at_the_end(folder: Path, summary: subprocess.CompletedProcess[str]) -> None:
    leader, follower = pty.openpty()
    surroundings = dict(os.environ)  # readline, which pytest imports, sets COLUMNS where only a child would see it
    with subprocess.Popen(
        command("report", folder), stdout=subprocess.PIPE, stderr=follower, text=True, env=surroundings
    ) as running:
        os.close(follower)
        seen = b""
        while chunk := _read(leader):
            seen += chunk
        output, _ = running.communicate(timeout=120)
    os.close(leader)
    lines = seen.decode().split("\r\x1b[K")
    assert any(line.startswith("reading ") and f"of {RANKS} ranks" in line for line in lines)
    assert lines[-1] == ""
    assert output == summary.stdout


def test_no_progress_in_a_pipe(summary: subprocess.CompletedProcess[str]) -> None:
    assert (summary.returncode, summary.stderr) == (0, "")


def test_the_line_of_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = 100.0
    monkeypatch.setattr("stepscope.cli._progress.time.monotonic", lambda: now)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    with Reading() as reading:
        reading.ranks(1, 64, 60 << 20, 3840 << 20)  # too early to say anything
        now = 110.0
        reading.ranks(16, 64, 960 << 20, 3840 << 20)
        reading.ranks(17, 64, 1020 << 20, 3840 << 20)  # too early to say anything again
        now = 120.0
        reading.file(2 << 30, 4 << 30, 2_100_000)
    lines = capsys.readouterr().err.split("\r\x1b[K")
    assert lines == [
        "",
        "reading 16 of 64 ranks · 960 MiB of 3.75 GiB · 96 MiB/s · 30 s left",
        "reading 2,100,000 events · 2 GiB of 4 GiB · 102 MiB/s · 20 s left",
        "",
    ]


@pytest.mark.parametrize("words", [("show", "operators"), ("view",)])
def test_who_opens_is_told_to_open_again_with_the_same_command(tmp_path: Path, words: tuple[str, ...]) -> None:
    write(tmp_path, 2)
    (tmp_path / "more.json").write_bytes((tmp_path / "part_1.json").read_bytes())
    asked = stepscope(*words, tmp_path)
    assert asked.returncode == 2
    assert f"`stepscope {' '.join(words)} {tmp_path / 'more.json'}`" in asked.stderr
    assert "stepscope report" not in asked.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_ends_at_once_and_leaves_nothing(tmp_path_factory: pytest.TempPathFactory, workers: str) -> None:
    folder, out = write(tmp_path_factory.mktemp("many"), 400), tmp_path_factory.mktemp("out")
    output = out / "report.html"
    words = command("report", folder, "--jobs", workers, "-o", output)
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not _has_open(process.pid, folder):
        assert process.poll() is None
        time.sleep(0.001)
    before = children_cpu()
    os.killpg(process.pid, signal.SIGINT)
    began = time.monotonic()
    _, said = process.communicate(timeout=60)
    assert children_cpu() - before < AT_ONCE
    assert process.returncode == 130
    assert said.splitlines()[-1] == "stepscope: stopped"
    assert "Traceback" not in said and "Aborted" not in said
    assert not list(out.iterdir())
    while time.monotonic() - began < 60 and _has_members(process.pid):
        time.sleep(0.05)
    assert not _has_members(process.pid)


def _has_open(pid: int, folder: Path) -> bool:
    """Whether a process or one that it started has a file of the folder open."""
    try:
        pids = (pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
        open_files = [file.readlink() for each in pids for file in Path(f"/proc/{each}/fd").iterdir()]
    except FileNotFoundError:  # closed meanwhile
        return False
    return any(file.parent == folder for file in open_files)


def children_cpu() -> float:
    """CPU seconds of the processes that have ended, which a busy machine does not make much longer."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end of the terminal is closed
        return b""


def test_ctrl_c_within_an_import_waits_until_it_is_over(tmp_path: Path) -> None:
    """Python may keep the locks of an import that is interrupted: then nothing could be imported any more."""
    (tmp_path / "interrupted.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhole = True\n")
    script = """
import sys, time
from stepscope.cli import main
def command(**words):
    import interrupted
    print(interrupted.whole, flush=True)
    time.sleep(30)
main.COMMANDS.main = command
main.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "True", "the interrupt may come before the end of the line"
    assert done.stderr.endswith("KeyboardInterrupt\n")
