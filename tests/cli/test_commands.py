"""The commands as a person uses them: real processes, real output, real exit codes."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope import __version__
from stepscope.cli.main import Commands

HERE = Path(__file__).parent


def stepscope(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-m", "stepscope", *words], capture_output=True, text=True, timeout=120, **options
    )


def commands() -> list[str]:
    group = Commands(name="stepscope")
    return group.list_commands(None)  # type: ignore[arg-type]


def test_version_and_help() -> None:
    assert stepscope("--version").stdout == f"stepscope {__version__}\n"
    page = stepscope("--help").stdout
    for name in commands():
        assert f"\n  {name} " in page


@pytest.mark.parametrize("name", commands())
def test_each_command_has_help_with_examples_that_parse(name: str) -> None:
    done = stepscope(name, "--help")
    assert done.returncode == 0
    assert "Examples:" in done.stdout
    assert f"  stepscope {name}" in done.stdout or f"$(stepscope {name}" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reprot"], "reprot is not a command: did you mean report?"),
        (["train.py"], "did you mean `stepscope run train.py`?"),
        (["zzz"], "zzz is not a command: `stepscope --help` lists the commands"),
        (["report", "/nowhere"], "/nowhere: there is no such file or folder"),
        (["report", "--summary", "--format", "json", "x"], "--summary: is for text, not for json"),
        (["show"], "no analysis was named"),
        (["show", "steps"], "no run was named"),
        (["show", "stps", "x"], "did you mean steps?"),
        (["explain", "inputbound"], "did you mean input-bound?"),
        (["explain", "zzz"], "`stepscope rules` lists them all"),
        (["run"], "no command to run"),
        (["run", "--trace", "5", "--", "true"], "'5' is neither auto, none nor a range of steps"),
        (["run", "--quiet", "--progress", "lines", "--", "true"], "--quiet: cannot be given together with"),
        (["report", "\x1b[31mred"], r"\x1b[31mred: there is no such file"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(words: list[str], message: str) -> None:
    done = stepscope(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stdout == ""


def test_unknown_options_are_usage_errors() -> None:
    done = stepscope("run", "--tracee", "none", "--", "true")
    assert done.returncode == 2
    assert "No such option" in done.stderr
    assert "--trace" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = stepscope("completion", shell)
    assert done.returncode == 0
    assert "_STEPSCOPE_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("stepscope re", {"report"}),
        ("stepscope explain input", {"input-bound"}),
        ("stepscope show device_t", {"device_time"}),
        ("stepscope report --format mark", {"markdown"}),
        ("stepscope run --prog", {"--progress"}),
    ],
)
def test_completion_completes(line: str, offered: set[str]) -> None:
    environment = {
        **os.environ, "_STEPSCOPE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")),
    }  # fmt: skip
    done = stepscope(env=environment)
    assert {entry.split(",")[1] for entry in done.stdout.split()} == offered


def test_doctor() -> None:
    done = stepscope("doctor")
    assert done.returncode == 0
    for name in ("python of the job", "GPU", "effective cores", "/dev/shm", "ptrace", "perf events", "folder for runs"):
        assert name in done.stdout
    document = json.loads(stepscope("doctor", "--format", "json").stdout)
    states = {check["name"]: check["state"] for check in document["checks"]}
    assert set(states.values()) <= {"yes", "partly", "no"}
    assert all(check["how"] for check in document["checks"] if check["state"] == "partly")


def test_doctor_without_a_python_says_so(tmp_path: Path) -> None:
    done = stepscope("doctor", env={"PATH": str(tmp_path)}, cwd=tmp_path)
    assert done.returncode == 0
    assert "no python on PATH" in done.stdout


class TestRun:
    """`stepscope run` around commands that need no torch."""

    def test_the_job_is_as_without_us(self, tmp_path: Path) -> None:
        code = "import sys; print(sys.argv[1:], sys.stdin.read()); print('err', file=sys.stderr); sys.exit(7)"
        done = stepscope(
            "run", "--out", "r", "--", sys.executable, "-c", code, "--trace", "x", "--", "-h", cwd=tmp_path, input="in"
        )
        assert done.returncode == 7
        assert done.stdout == "['--trace', 'x', '--', '-h'] in\n"
        assert "err\n" in done.stderr
        assert "stepscope: recorded in r\n" in done.stderr
        assert "  stepscope report r\n" in done.stderr
        assert (tmp_path / "r" / "end.json").exists()

    def test_a_python_file_runs_with_the_python_on_path(self, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text("import sys; print(sys.executable, sys.argv)")
        binaries = tmp_path / "bin"
        binaries.mkdir()
        (binaries / "python").write_text(f'#!/bin/sh\necho other python\nexec {sys.executable} "$@"\n')
        (binaries / "python").chmod(0o755)
        environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}
        done = stepscope("run", "--quiet", "train.py", "--lr", "1", cwd=tmp_path, env=environment)
        assert done.stdout == f"other python\n{sys.executable} ['train.py', '--lr', '1']\n"
        assert done.stderr == ""

    def test_after_two_dashes_an_executable_file_is_run_to_the_letter(self, tmp_path: Path) -> None:
        script = tmp_path / "train.py"
        script.write_text("#!/bin/sh\necho by the shell $1\n")
        script.chmod(0o755)
        assert stepscope("run", "--quiet", "--", "./train.py", "x", cwd=tmp_path).stdout == "by the shell x\n"

    def test_a_signal_ends_us_as_it_ended_the_job(self, tmp_path: Path) -> None:
        done = stepscope("run", "--quiet", "--", "sh", "-c", "kill -TERM $$", cwd=tmp_path)
        assert done.returncode == -signal.SIGTERM

    def test_a_command_that_does_not_exist_leaves_nothing_behind(self, tmp_path: Path) -> None:
        done = stepscope("run", "--", "no-such-command", cwd=tmp_path)
        assert done.returncode == 127
        assert done.stderr == "stepscope: no-such-command: command not found\n"
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_in_use_is_refused_before_the_job_starts(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        done = stepscope("run", "--out", str(tmp_path), "--", "touch", str(tmp_path / "ran"))
        assert done.returncode == 2
        assert "is not empty" in done.stderr
        assert not (tmp_path / "ran").exists()

    def test_a_folder_that_cannot_be_made_does_not_stop_the_job(self, tmp_path: Path) -> None:
        done = stepscope("run", "--out", "/proc/none/run", "--", "echo", "ran", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "ran\n")
        assert "not recorded: everything: cannot write to /proc/none/run" in done.stderr
        assert "recorded in" not in done.stderr

    def test_a_job_without_steps_says_why(self, tmp_path: Path) -> None:
        done = stepscope("run", "--out", "r", "--", sys.executable, "-c", "print(1)", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "1\n")
        assert "Unknown: " in done.stderr
        assert "No step was recorded" in done.stderr

    def test_nothing_heavy_is_imported_before_the_job_starts(self) -> None:
        code = (
            "import sys, stepscope.cli.main, stepscope.cli.run; "
            "print([name for name in ('polars', 'rich', 'numpy', 'difflib', 'subprocess') if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"

    def test_a_broken_analysis_does_not_change_the_exit_code(self, tmp_path: Path) -> None:
        code = "import sys; open('r/run.json', 'w').write('{\"format\": \"other\", \"version\": 1}'); sys.exit(3)"
        done = stepscope("run", "--out", "r", "--", sys.executable, "-c", code, cwd=tmp_path)
        assert done.returncode == 3
        (line,) = [line for line in done.stderr.splitlines() if "could not be analysed" in line]
        assert "not a run of stepscope" in line
        assert "Traceback" not in done.stderr

    def test_progress_on_a_terminal_only(self, tmp_path: Path) -> None:
        job = "import time; print('partial', end='', flush=True); time.sleep(0.1)"
        done = stepscope("run", "--no-report", "--out", "a", "--", sys.executable, "-c", job, cwd=tmp_path)
        assert "ms/step" not in done.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    for words in ("show --list", "rules", "doctor --format json"):
        line = f"set -o pipefail; {sys.executable} -m stepscope {words} | head -n 0"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert done.stderr == ""
        assert "Traceback" not in done.stdout


def test_parquet_is_refused_on_a_terminal() -> None:
    leader, follower = pty.openpty()
    words = [sys.executable, "-m", "stepscope", "show", "steps", "/nowhere", "--format", "parquet"]
    done = subprocess.run(words, stdout=follower, stderr=subprocess.PIPE, text=True, check=False)
    os.close(follower)
    os.close(leader)
    assert done.returncode == 2
    assert "a terminal cannot show it" in done.stderr
