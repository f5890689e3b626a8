"""Entry point: finds the command that was asked for, imports that one only, and turns errors into messages.

Exit codes: 0 fine, 2 the user can mend it, otherwise (`run` only) what the job ended with.
"""

import importlib
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

import click

from stepscope import __version__
from stepscope.core.errors import StepscopeError
from stepscope.render.format import plain

__all__ = ["COMMANDS", "Commands", "main", "nearest"]

_EXAMPLES = """\b
Examples:
  stepscope run -- python train.py --epochs 3
  stepscope run -- torchrun --nproc-per-node 2 train.py
  stepscope report stepscope-runs/train-20260401-120000
  stepscope report trace.json.gz --format html -o report.html
"""


class Failure(click.ClickException):
    """Something the user can mend."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print what, where, why and the next command, without a traceback."""
        for number, line in enumerate(self.message.splitlines() or [""]):
            click.echo(("stepscope: " if number == 0 else "  ") + plain(line, limit=1000), file=file or sys.stderr)


class Commands(click.Group):
    """Every module of this package that has no underscore and is not this one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, sorted, without importing them."""
        names = (path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
        return sorted(name for name in names if name != "main")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"stepscope.cli.{cmd_name}").COMMAND
        if not isinstance(command, click.Command):
            raise TypeError(f"stepscope.cli.{cmd_name} must assign COMMAND = a click.Command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; an unknown command is answered with the nearest one."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            hint = nearest(name, self.list_commands(ctx)) or "`stepscope --help` lists the commands"
            if name.endswith(".py") or Path(name).exists():
                verb = "run" if name.endswith(".py") else "report"
                hint = f"did you mean `stepscope {verb} {name}`?"
            raise Failure(f"{name} is not a command: {hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what the user can mend becomes a message."""
        try:
            return super().invoke(ctx)
        except StepscopeError as error:
            raise Failure(str(error)) from error


def nearest(name: str, names: list[str]) -> str:
    """`did you mean X?` for the name most like `name`, or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(name.replace("_", "-"), names, n=1, cutoff=0.5)
    close = close or get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else ""


def main() -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an ASCII terminal must not end a report with a traceback
    COMMANDS.main(prog_name="stepscope")  # click itself ends quietly when the reader of a pipe has gone


COMMANDS = Commands(
    name="stepscope",
    help="Why is my training slow, what would fix it, and by how much: measured, not guessed.",
    epilog=_EXAMPLES,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
click.version_option(__version__, prog_name="stepscope", message="%(prog)s %(version)s")(COMMANDS)
