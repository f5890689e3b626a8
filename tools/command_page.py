"""The command line page: what every command prints for --help."""

import os
import subprocess
import sys

import click

from stepscope.cli.main import Commands

__all__ = ["page"]

HEAD = """\
# Command line

*Generated from the commands' own help by `tools/generate_docs.py`.*

Exit codes: 0 is fine, 1 is a rule, section or table that failed unexpectedly (it says so in its place, and the rest is
there), 2 is something the user can fix (the message says what, where and the next command),
130 is stopped by Ctrl-C. `stepscope run` exits with the job's own exit code.
"""


def page() -> str:
    """Return docs/cli.md."""
    commands = Commands()
    names = commands.list_commands(click.Context(commands))
    parts = [HEAD, shown()]
    for name in names:
        parts += [f"## stepscope {name}\n", shown(name)]
        command = commands.get_command(click.Context(commands), name)
        for below in sorted(command.commands) if isinstance(command, click.Group) else ():
            parts += [f"### stepscope {name} {below}\n", shown(name, below)]
    return "\n".join(parts)


def shown(*words: str) -> str:
    """What a user sees for `stepscope WORDS --help` in a terminal of 100 columns."""
    command = [sys.executable, "-m", "stepscope", *words, "--help"]
    environment = {**os.environ, "COLUMNS": "100"}
    printed = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8", env=environment)
    return f"```text\n{printed.stdout.rstrip()}\n```\n"
