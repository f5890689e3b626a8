"""Entry point: finds the command that was asked for, imports that one only, and turns errors into messages.

Exit codes: 0 fine, 1 a view failed unexpectedly (the rest is there), or `lint` found a line, 2 the user can fix it, 130
stopped by Ctrl-C, 141 nobody reads the output any more (what a shell gives for SIGINT and SIGPIPE), otherwise (`run`
only) what the job ended with.
"""

import atexit
import errno
import gc
import importlib
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import IO, Any

import click

from stepscope import __version__
from stepscope.core import background
from stepscope.core.errors import StepscopeError, ViewFailed
from stepscope.core.memory import collect_seldom
from stepscope.render.format import plain

__all__ = ["COMMANDS", "FAILED", "Commands", "main", "nearest"]

_EXAMPLES = """\b
Examples:
  stepscope run -- python train.py --epochs 3
  stepscope run -- torchrun --nproc-per-node 2 train.py
  stepscope report stepscope-runs/train-20260401-120000
  stepscope report trace.json.gz --format html -o report.html
"""


FAILED = 1
"""The exit code of a command of which a part ended in an unexpected exception."""

_COMPILED = "stepscope.native"  # its import says how to build what is missing
_MOMENT = 0.02  # seconds: long for an import, short for a person
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Failure(click.ClickException):
    """Something the user can fix."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print what, where, why and the next command, without a traceback."""
        for number, line in enumerate(self.message.splitlines() or [""]):
            click.echo(("stepscope: " if number == 0 else "  ") + plain(line, limit=1000), file=file or sys.stderr)


class Defect(Failure):
    """A defect of stepscope."""

    exit_code = FAILED


@contextmanager
def _quiet_without_reader() -> Iterator[None]:
    """End without a word once nobody reads the output: click and rich would exit with 1, as after a failure."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError as gone:
        _drop_output()
        raise click.exceptions.Exit(128 + signal.SIGPIPE) from gone
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _drop_output()
        raise Failure(f"standard output cannot be written: {error.strerror}\nwrite to another disk") from error


@contextmanager
def _in_our_words(ctx: click.Context | None) -> Iterator[None]:
    """Tell a wrong option or argument as every other mistake: what, where, and the next command.

    `ctx` is that of the group once a command has been chosen: not every error of click names it.
    """
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        chosen = f" {ctx.invoked_subcommand}" if ctx and ctx.invoked_subcommand else ""
        command = error.ctx.command_path if error.ctx else f"stepscope{chosen}"
        what = " ".join(error.format_message().split()).removesuffix(".")
        what = what.replace("a valid integer range", "a whole number").replace("x>=", "from ")
        where = command.removeprefix("stepscope").strip()
        told = f"{where}: " * bool(where) + what[:1].lower() + what[1:]
        raise Failure(f"{told}\n`{command} --help` says how, with examples") from error


def _drop_output() -> None:
    """What is still in a buffer of the standard output goes nowhere when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class Commands(click.Group):
    """Every module of this package that has no underscore and is not this one."""

    def make_context(self, *words: Any, **more: Any) -> click.Context:
        """As click does; `--help` and `--version` are printed meanwhile."""
        with _quiet_without_reader(), _in_our_words(None):
            return super().make_context(*words, **more)

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
            meant = meant_by(args)
            hint = f"did you mean `{meant}`?" if meant else nearest(name, self.list_commands(ctx))
            raise Failure(f"{name} is not a command: {hint or '`stepscope --help` lists the commands'}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what the user can fix becomes a message."""
        try:
            with background.awaited(), _quiet_without_reader(), _in_our_words(ctx):
                return super().invoke(ctx)
        except ViewFailed as error:
            raise Defect(str(error)) from error
        except StepscopeError as error:
            raise Failure(str(error)) from error
        except ImportError as error:
            if error.name != _COMPILED:
                raise
            raise Failure(str(error)) from error
        except KeyboardInterrupt as stopped:
            click.echo("stepscope: stopped", err=True)
            raise click.exceptions.Exit(128 + signal.SIGINT) from stopped


def meant_by(words: list[str]) -> str:
    """The command that somebody meant who wrote a job or a path instead of one; empty where it is neither."""
    name = words[0]
    if name.endswith(".py"):
        return shlex.join(["stepscope", "run", "--", "python", *words])
    runs = shutil.which(name) or any(word.endswith(".py") for word in words)
    if runs and (len(words) > 1 or os.sep in name):  # a name alone is rather a misspelled command
        return shlex.join(["stepscope", "run", "--", *words])
    return shlex.join(["stepscope", "report", *words]) if Path(name).exists() else ""


def nearest(name: str, names: list[str]) -> str:
    """`did you mean X?` for the name most like `name`, or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(name.replace("_", "-"), names, n=1, cutoff=0.5)
    close = close or get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else ""


def main() -> None:
    """Run the command line and exit."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, closed before the start by `>&-`
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an ASCII terminal must not end a report with a traceback
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        for number in (signal.SIGINT, signal.SIGALRM):
            signal.signal(number, _interrupt)
    collect_seldom()
    atexit.register(gc.freeze)  # nothing is worth collecting once all is said: 50 ms
    COMMANDS.main(prog_name="stepscope")


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not within an import, whose locks Python may then keep for ever: a moment later."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            signal.setitimer(signal.ITIMER_REAL, _MOMENT)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


COMMANDS = Commands(
    name="stepscope",
    help="Find out why training is slow, what would fix it, and how much that saves.",
    epilog=_EXAMPLES,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
click.version_option(__version__, prog_name="stepscope", message="%(prog)s %(version)s")(COMMANDS)
