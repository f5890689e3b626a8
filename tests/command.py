"""The command line as a person uses it: real processes, real output, real exit codes."""

import os
import subprocess
import sys
from tempfile import TemporaryFile
from typing import IO, Any

from .warm_command import run_warm, same_start

__all__ = ["PATIENCE", "command", "printed", "stepscope"]

PATIENCE = 300  # seconds: what takes so long on a busy machine too has hung


def command(*words: object) -> list[str]:
    """The words that start stepscope as a process."""
    return [sys.executable, "-m", "stepscope", *map(str, words)]


def stepscope(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever that is, in a process forked from one that has imported stepscope."""
    given = {"timeout": PATIENCE, "check": False, "capture_output": True, **options}
    if set(given) <= _WARM and given["capture_output"] and same_start(given.get("env") or dict(os.environ)):
        return _forked(list(map(str, words)), **given)
    return subprocess.run(command(*words), text=True, **given)


_WARM = {"timeout", "check", "capture_output", "cwd", "env", "input"}


def _forked(
    words: list[str], *, timeout: float, check: bool, cwd: object = None, env: dict[str, str] | None = None,
    input: str | None = None, **_: object,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """As subprocess.run."""
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write((input or "").encode())
        given.seek(0)
        where = os.path.abspath(os.fsdecode(str(cwd or ".")))
        environment = dict(os.environ if env is None else env)
        code = run_warm(words, where, environment, [given.fileno(), out.fileno(), err.fileno()], timeout)
        texts = [_text(file) for file in (out, err)]
    done = subprocess.CompletedProcess(command(*words), code, *texts)
    if check:
        done.check_returncode()
    return done


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")


def printed(*words: object, **options: Any) -> str:
    """What a command prints, which must end well."""
    done = stepscope(*words, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout
