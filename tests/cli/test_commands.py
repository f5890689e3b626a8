"""The commands as a person uses them: real processes, real output, real exit codes."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope import __version__
from stepscope.cli.main import Commands

from ..command import PATIENCE, command, stepscope

HERE = Path(__file__).parent
OPERATOR = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}


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
        (["train.py", "--lr", "1"], "did you mean `stepscope run -- python train.py --lr 1`?"),
        (["python", "train.py"], "did you mean `stepscope run -- python train.py`?"),
        (["bash", "a script.sh"], "did you mean `stepscope run -- bash 'a script.sh'`?"),
        (["torchrun", "train.py"], "did you mean `stepscope run -- torchrun train.py`?"),
        (["/tmp"], "did you mean `stepscope report /tmp`?"),
        (["zzz"], "zzz is not a command: `stepscope --help` lists the commands"),
        (["report", "/nowhere"], "/nowhere: there is no such file or folder"),
        (["report", "--full", "--format", "json", "x"], "--full: is for text, not for json"),
        (["report", "--checks", "--format", "html", "x"], "--checks: is for text, not for html"),
        (["report", "--checks", "--full", "x"], "--checks: cannot be given together with --full"),
        (["show"], "no table was named"),
        (["show", "steps"], "no run was named"),
        (["show", "stps", "x"], "did you mean steps?"),
        (["show", ".", "steps"], "the table comes first: `stepscope show steps .`"),
        (["show", "/nowhere/run", "device-time"], "`stepscope show device_time /nowhere/run`"),
        (["explain", "inputbound"], "did you mean input-bound?"),
        (["explain", "zzz"], "`stepscope rules` lists them all"),
        (["run"], "no command to run"),
        (["run", "--trace", "5", "--", "true"], "'5' is neither auto, none nor a range of steps"),
        (["show", "input-bound", "x"], "it is a rule: `stepscope explain input-bound`"),
        (["explain", "steady_steps"], "it is an analysis: `stepscope show steady_steps PATH`"),
        (["show", "."], "show: no table was named"),
        (["report", ""], "PATH: is empty"),
        (["report", ".", "-o", "x.pdf"], "x.pdf: .pdf is none of the formats"),
        (["report", ".", "-o", "x.xyz"], "ends in .txt, .log, .json, .md, .markdown, .html, .htm, or a format with"),
        (["show", "steps", ".", "-o", "x.xyz"], "x.xyz: .xyz is none of the formats"),
        (["show", "steps", ".", "-o", "x.html"], "or a format with --format: table, json, csv, markdown, parquet"),
        (["run", "--out", "", "--", "true"], "--out: names no folder"),
        (["run", "--activities", "gpu", "--", "true"], "did you mean cuda?"),
        (["run", "--quiet", "--progress", "lines", "--", "true"], "--quiet: cannot be given together with"),
        (["report", "\x1b[31mred"], r"\x1b[31mred: no file and no folder matches"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(words: list[str], message: str) -> None:
    done = stepscope(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "message", "told"),
    [
        (["run", "--tracee", "none", "--", "true"], "run: no such option '--tracee'.", "stepscope run"),
        (["--versio"], "no such option '--versio'. Did you mean '--version'?", "stepscope"),
        (["report"], "report: missing argument 'PATH...'", "stepscope report"),
        (["report", "x", "--format"], "report: option '--format' requires an argument", "stepscope report"),
        (["report", "x", "--format", "jsn"], "report: invalid value for '--format': 'jsn' is not", "stepscope report"),
        (["show", "steps", ".", "--rows", "many"], "'many' is not a whole number", "stepscope show"),
        (["completion"], "completion: missing argument '{bash|zsh|fish}'", "stepscope completion"),
        (["rules", "extra"], "rules: got unexpected extra argument (extra)", "stepscope rules"),
    ],
)
def test_a_wrong_option_is_told_like_every_other_mistake(words: list[str], message: str, told: str) -> None:
    done = stepscope(*words)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("stepscope: ")
    assert message in first
    assert second == f"  `{told} --help` says how, with examples"


def test_without_words_the_help_is_printed() -> None:
    done = stepscope()
    assert done.returncode == 2
    assert "Usage: stepscope [OPTIONS] COMMAND" in done.stdout + done.stderr


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


@pytest.mark.slow
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
        assert "stepscope report r --full" in done.stderr and "stepscope view r\n" in done.stderr
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
        assert done.stderr == (
            "stepscope: no-such-command: command not found\n"
            "  stepscope run -- python TRAIN.py, or any command that this shell finds\n"
        )
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("dashes", [["--"], []])
    @pytest.mark.parametrize("name", ["./job", "job", "job/"])
    def test_a_folder_is_no_command(self, tmp_path: Path, name: str, dashes: list[str]) -> None:
        (tmp_path / name).mkdir()
        done = stepscope("run", *dashes, name, cwd=tmp_path)
        assert done.returncode == 126
        assert done.stderr.startswith(f"stepscope: {name}: is a folder, not a command\n")
        assert "  stepscope run -- python job/TRAIN.py\n" in done.stderr
        assert [path.name for path in tmp_path.iterdir()] == [Path(name).name]

    def test_a_command_on_the_path_wins_over_a_folder_of_its_name(self, tmp_path: Path) -> None:
        (tmp_path / "echo").mkdir()
        assert stepscope("run", "--quiet", "--", "echo", "ran", cwd=tmp_path).stdout == "ran\n"

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
        (line,) = [line for line in done.stderr.splitlines() if "could not be analyzed" in line]
        assert "not a run of stepscope" in line
        assert "Traceback" not in done.stderr

    def test_progress_on_a_terminal_only(self, tmp_path: Path) -> None:
        job = "import time; print('partial', end='', flush=True); time.sleep(0.1)"
        done = stepscope("run", "--no-report", "--out", "a", "--", sys.executable, "-c", job, cwd=tmp_path)
        assert "ms/step" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["report", "--help"],
        ["rules"],
        ["explain", "input-bound"],
        ["doctor"],
        ["show", "--list"],
        ["show", "operators", "trace.json"],
        ["show", "operators", "trace.json", "--format", "parquet"],
        *(["report", "trace.json", "--format", form] for form in ("text", "json", "markdown", "html")),
    ],
)
def test_a_reader_that_goes_away_ends_us_as_it_ends_other_programs(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": [OPERATOR]}))
    done = stepscope_without_reader(words, tmp_path)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_a_reader_that_goes_away_does_not_change_the_exit_code_of_the_job(tmp_path: Path) -> None:
    words = ["run", "--out", "r", "--", sys.executable, "-c", "import sys; sys.exit(5)"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command(*words), cwd=tmp_path, stderr=writing, timeout=PATIENCE, check=False)
    os.close(writing)
    assert done.returncode == 5
    assert (tmp_path / "r" / "end.json").exists()


@pytest.mark.parametrize("words", ["rules", "show --list"])
def test_output_that_cannot_be_written_is_a_message(tmp_path: Path, words: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    line = f"ulimit -f 1; yes | head -c 600 > full; {sys.executable} -m stepscope {words} >> full"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "stepscope: standard output cannot be written: File too large\n  write to another disk\n"


@pytest.mark.parametrize("words", ["rules", "show --list", "doctor", "run --quiet -- true", "nonsense"])
def test_closed_outputs_are_no_error(tmp_path: Path, words: str) -> None:
    line = f"{sys.executable} -m stepscope {words} >&- 2>&-"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, check=False)
    assert done.returncode == (2 if words == "nonsense" else 0)


def stepscope_without_reader(words: list[str], cwd: Path) -> subprocess.CompletedProcess[bytes]:
    """As `stepscope WORDS | true`, but certain that nobody reads when the first line is written."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command(*words), cwd=cwd, stdout=writing, stderr=subprocess.PIPE, timeout=PATIENCE, check=False
    )
    os.close(writing)
    return done


def test_checks_lists_every_rule_with_what_it_needs(tmp_path: Path) -> None:
    """The command that a report without findings names runs, with the path as it was given."""
    (tmp_path / "a trace.json").write_text(json.dumps({"traceEvents": [OPERATOR]}))
    done = stepscope("report", "a trace.json", "--checks", cwd=tmp_path)
    assert done.returncode == 0
    rules = stepscope("rules").stdout.split()
    for name in ("input-bound", "garbage-collector", "too-many-workers"):
        assert name in rules
        assert len(re.findall(rf"(?<![\w-]){name}(?![\w-])", done.stdout)) == 1
    assert "needs" in done.stdout
    assert "stepscope run" in done.stdout


def test_every_source_of_evidence_can_be_shown(tmp_path: Path) -> None:
    """Findings name analyses and tables as they were recorded; `show` prints both, under the same names."""
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": [OPERATOR]}))
    document = json.loads(stepscope("show", "host", "trace.json", "--format", "json", cwd=tmp_path).stdout)
    assert document["analysis"] == "host"
    assert [(row["name"], row["start"], row["end"]) for row in document["rows"]] == [("aten::mm", 1000, 3000)]
    empty = stepscope("show", "loaders", "trace.json", "--format", "csv", cwd=tmp_path)
    assert (empty.returncode, len(empty.stdout.splitlines())) == (0, 1)
    listed = stepscope("show", "--list").stdout
    assert (
        "as they were recorded (docs/tables.md):\nbatch_tensors, clock_readings, counters, device, devices, " in listed
    )
    assert "\nsteady_steps " in listed


def test_parquet_is_refused_on_a_terminal() -> None:
    leader, follower = pty.openpty()
    words = command("show", "steps", "/nowhere", "--format", "parquet")
    done = subprocess.run(words, stdout=follower, stderr=subprocess.PIPE, text=True, check=False)
    os.close(follower)
    os.close(leader)
    assert done.returncode == 2
    assert "a terminal cannot show it" in done.stderr
