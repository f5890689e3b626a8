"""The launcher: the command must not notice it."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stepscope.collect import launch as launching
from stepscope.collect.launch import Exit, launch, resolve
from stepscope.run_format.options import RecordingOptions

WHOLE_TORCH = True

SOURCE = str(Path(__file__).parents[2] / "src")
LAUNCHER = """
import json, sys
sys.path.insert(0, {source!r})
from stepscope.collect.launch import launch, leave
from stepscope.run_format.options import RecordingOptions
end = launch(sys.argv[2:], sys.argv[1], RecordingOptions())
if end.not_started:
    print(end.not_started, file=sys.stderr)
leave(end)
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def launched(out: Path, command: list[str], **options: Any) -> subprocess.Popen[str]:
    """A stepscope process of its own around `command`."""
    script = LAUNCHER.format(source=SOURCE)
    return subprocess.Popen(
        [sys.executable, "-c", script, str(out), *command],
        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def run(out: Path, command: list[str]) -> Exit:
    return launch(command, str(out), RecordingOptions())


def wait_for(path: Path) -> str:
    for _ in range(3000):
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.02)
    raise AssertionError(f"{path} was never written")


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_the_exit_code_is_the_commands(tmp_path: Path, code: int) -> None:
    with launched(tmp_path / "out", ["sh", "-c", f"exit {code}"]) as process:
        assert process.wait() == code
    end = json.loads((tmp_path / "out" / "end.json").read_text())
    assert (end["exit_code"], end["signal"], end["not_recorded"]) == (code, None, [])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT])
def test_a_command_killed_by_a_signal_ends_us_by_it(tmp_path: Path, number: signal.Signals) -> None:
    with launched(tmp_path / "out", python(f"import os; os.kill(os.getpid(), {int(number)})")) as process:
        assert process.wait() == -number
    end = json.loads((tmp_path / "out" / "end.json").read_text())
    assert (end["exit_code"], end["signal"]) == (None, number)


def test_streams_arguments_and_folder_are_untouched(tmp_path: Path) -> None:
    tell = python(
        """
        import os, sys
        print(sys.argv[1:], os.getcwd(), sys.stdin.read())
        print("to the error stream", file=sys.stderr)
        """
    )
    with launched(tmp_path / "out", [*tell, "--x", "a b", "*"], cwd=tmp_path) as process:
        assert process.communicate("typed") == (f"['--x', 'a b', '*'] {tmp_path} typed\n", "to the error stream\n")


def test_the_run_is_described_at_its_start_and_at_its_end(tmp_path: Path) -> None:
    out = tmp_path / "out"
    end = launch(["true"], str(out), RecordingOptions(lines_hz=5), cores={"affinity": 2})
    begun, ended = json.loads((out / "run.json").read_text()), json.loads((out / "end.json").read_text())
    assert (begun["format"], begun["version"], begun["command"]) == ("stepscope-run", 1, ["true"])
    assert (begun["cwd"], begun["cores"], begun["options"]["lines_hz"]) == (os.getcwd(), {"affinity": 2}, 5)
    assert begun["started_epoch_ns"] < ended["ended_epoch_ns"]
    assert ended["wall_ns"] == end.wall_ns > 0


ENVIRONMENT = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"


@pytest.mark.parametrize("before", [None, "", "/some/where:/else"])
def test_the_environment_only_gains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if before is not None:
        monkeypatch.setenv("PYTHONPATH", before)
    bare, seen = tmp_path / "bare.json", tmp_path / "seen.json"
    subprocess.run([*python(ENVIRONMENT), str(bare)], check=True)
    assert run(tmp_path / "out", [*python(ENVIRONMENT), str(seen)]).code == 0
    changed = dict(json.loads(seen.read_text()).items() - json.loads(bare.read_text()).items())
    assert set(changed) == {"PYTHONPATH", "STEPSCOPE_RUN_DIR", "STEPSCOPE_OPTIONS"}
    inject = str(Path(SOURCE) / "stepscope" / "collect" / "inject")
    assert changed["PYTHONPATH"] == (f"{inject}:{before}" if before else inject)


STATUS = "import re, sys; open(sys.argv[1], 'w').write(open('/proc/self/status').read())"


# Signals 32 and 33 are glibc's own: posix_spawn has them ignored until the program's first thread takes them.
OF_GLIBC = 0b11 << 31


def signal_sets(status: Path) -> dict[str, int]:
    rows = (line.split(":") for line in status.read_text().splitlines())
    return {name: int(value, 16) & ~OF_GLIBC for name, value in rows if name in ("SigBlk", "SigIgn")}


def test_the_child_inherits_the_signal_mask_and_dispositions_we_had(tmp_path: Path) -> None:
    bare, seen = tmp_path / "bare", tmp_path / "seen"
    subprocess.run([*python(STATUS), str(bare)], check=True)
    with launched(tmp_path / "out", [*python(STATUS), str(seen)]) as process:
        assert process.wait() == 0
    assert signal_sets(seen) == signal_sets(bare)


WITH_HANDLERS = """
import os, select, signal, sys, time
def handle(number, frame):
    print(signal.Signals(number).name, flush=True)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
    signal.signal(number, handle)
open(sys.argv[1], "w").write(str(os.getpid()))
while not select.select([sys.stdin], [], [], 0.05)[0]:
    pass  # a signal just before a read that lasts would be handled after it
sys.stdin.read()
"""


@pytest.fixture
def handling(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A job with signal handlers in a group of its own; gives stepscope's process and the child's identifier."""
    ready = tmp_path / "ready"
    with launched(tmp_path / "out", [*python(WITH_HANDLERS), str(ready)], process_group=0) as process:
        yield process, int(wait_for(ready))
        process.kill()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT"])
def test_a_signal_to_us_reaches_the_child_once(handling: tuple[subprocess.Popen[str], int], name: str) -> None:
    process, _ = handling
    process.send_signal(signal.Signals[name])
    assert process.stdout is not None
    assert process.stdout.readline() == name + "\n"
    time.sleep(0.3)  # for a second one, if there were one
    assert process.communicate() == ("", "")
    assert process.returncode == 0


TERMINAL = """
import os, pty, sys, time
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
os.write(terminal, b"\\x03")
said = b""
while b"SIGINT" not in said:
    said += os.read(terminal, 1000)
time.sleep(0.3)  # for a second one, if there were one
os.write(terminal, b"\\x04")
try:
    while True:
        said += os.read(terminal, 1000)
except OSError:
    pass
print(said.count(b"SIGINT"), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_ctrl_c_of_a_terminal_reaches_the_child_once(tmp_path: Path) -> None:
    ready = str(tmp_path / "ready")
    inner = ["-c", LAUNCHER.format(source=SOURCE), str(tmp_path / "out"), *python(WITH_HANDLERS), ready]
    told = subprocess.run([*python(TERMINAL), ready, *inner], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "1 0\n"


def test_the_child_ends_between_two_ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks: list[float] = []
    monkeypatch.setattr(launching, "TICK_NS", 20_000_000_000)
    begin = time.monotonic()
    launch(
        ["sleep", "0.3"], str(tmp_path / "out"), RecordingOptions(), lambda pid: ticks.append(time.monotonic() - begin)
    )
    assert time.monotonic() - begin < 15
    assert len(ticks) == 1


def test_a_tick_comes_at_once_and_ten_times_a_second(tmp_path: Path) -> None:
    ticks: list[float] = []
    launch(["sleep", "0.5"], str(tmp_path / "out"), RecordingOptions(), lambda pid: ticks.append(time.monotonic()))
    assert len(ticks) >= 2
    assert all(after - before > 0.05 for before, after in pairwise(ticks))


def test_a_failing_tick_ends_the_ticks_only(tmp_path: Path) -> None:
    def tick(pid: int) -> None:
        raise ValueError(f"no process {pid > 0}")

    end = launch(["sleep", "0.1"], str(tmp_path / "out"), RecordingOptions(), tick)
    assert (end.code, end.not_recorded) == (0, [{"what": "the system", "why": "ValueError: no process True"}])


@pytest.mark.parametrize(
    ("content", "mode", "code", "message"),
    [
        (None, 0, 127, "command not found"),
        ("#!/no/such/interpreter\n", 0o755, 126, "interpreter in its first line does not exist"),
        ("echo hello\n", 0o644, 126, "Permission denied"),
    ],
)
def test_a_command_that_cannot_be_run_gives_the_shells_code(
    tmp_path: Path, content: str | None, mode: int, code: int, message: str
) -> None:
    program = tmp_path / "program"
    if content is not None:
        program.write_text(content)
        program.chmod(mode)
    with launched(tmp_path / "out", [str(program)]) as process:
        _, told = process.communicate()
    assert process.returncode == code
    assert message in told
    assert str(program) in told


def test_an_out_folder_that_cannot_be_made_does_not_stop_the_job(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    tell = python("import os; assert 'STEPSCOPE_RUN_DIR' not in os.environ")
    end = run(tmp_path / "file" / "out", tell)
    assert (end.code, end.recorded) == (0, False)
    assert [row["what"] for row in end.not_recorded] == ["everything"]
    assert "Not a directory" in end.not_recorded[0]["why"]


def test_a_script_is_run_by_the_python_on_the_path() -> None:
    found = resolve(["train.py", "--epochs", "3"])
    assert Path(found[0]).name in ("python", "python3")
    assert found[1:] == ["train.py", "--epochs", "3"]
    assert resolve(["torchrun", "train.py"]) == ["torchrun", "train.py"]


@pytest.mark.parametrize("mode", [0o644, 0o755])
@pytest.mark.parametrize(
    ("first_line", "interpreter"), [("#!/bin/sh -e\n", ["/bin/sh", "-e"]), ("#!/no/such\n", None), ("", None)]
)
def test_how_a_script_is_run_does_not_depend_on_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, first_line: str, interpreter: list[str] | None
) -> None:
    script = tmp_path / "train.py"
    script.write_text(first_line)
    script.chmod(mode)
    monkeypatch.chdir(tmp_path)
    python = resolve(["x.py"])[:1]
    assert resolve(["./train.py", "a"], exact=True) == [*(interpreter or python), "./train.py", "a"]
    assert resolve(["train.py", "a"], exact=True) == [*python, "train.py", "a"]
    assert resolve(["./train.py"]) == [*python, "./train.py"]


def test_a_folder_of_another_user_where_all_may_write_is_not_used(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a folder of another user's")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    planted, own = shared / "stepscope-runs", tmp_path / "own"
    own.mkdir()
    planted.symlink_to(own)
    os.lchown(planted, 65534, 65534)
    end = run(planted / "job", python("print()"))
    assert (end.code, end.recorded) == (0, False)
    assert "another user" in end.not_recorded[0]["why"]
    assert run(own / "job", python("print()")).recorded
