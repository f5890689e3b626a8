"""The command line as a person uses it: real processes, real output, real exit codes."""

import subprocess
import sys
from typing import Any

__all__ = ["PATIENCE", "command", "printed", "stepscope"]

PATIENCE = 300  # seconds: what takes so long on a busy machine too has hung


def command(*words: object) -> list[str]:
    """The words that start stepscope as a process."""
    return [sys.executable, "-m", "stepscope", *map(str, words)]


def stepscope(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever that is."""
    given = {"timeout": PATIENCE, "check": False, "capture_output": True, **options}
    return subprocess.run(command(*words), text=True, **given)


def printed(*words: object, **options: Any) -> str:
    """What a command prints, which must end well."""
    done = stepscope(*words, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout
