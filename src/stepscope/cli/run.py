"""`stepscope run`: start the user's command with the probe in it, then say what limits it.

Until the command has started, nothing but click and small modules of stepscope is imported. The analysis runs in a
process of its own: whatever happens to it, the exit code is the job's.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli._folder import run_folder
from stepscope.cli._job_monitor import JobMonitor
from stepscope.cli._options import DEFAULT_LOADER, DEFAULT_LOADER_LINES_HZ, RunOptions, recording
from stepscope.cli._report_process import PARTLY, ReportProcess
from stepscope.collect.launch import NOT_EXECUTABLE, NOT_FOUND, Departure, Exit, launch, leave, resolve
from stepscope.core.errors import BadInput
from stepscope.observe.cores import effective_cores
from stepscope.render.format import plain
from stepscope.run_format.files import RUN

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["COMMAND"]

_EXAMPLES = """\b
Examples:
  stepscope run -- python train.py --epochs 3
  stepscope run train.py --epochs 3
  stepscope run --trace 100:110 --with shapes,stacks -- python train.py
  stepscope run --trace none --out runs/baseline -- torchrun --nproc-per-node 2 train.py
  stepscope run --set num_workers=4,prefetch_factor=4 -- python train.py
  stepscope run --schedule wait=20,warmup=2,active=5,repeat=2 -- ./train.sh

Everything after -- (or after the first word that is no option) belongs to the command.
"""
_NOTES_SHOWN = 5


class _Run(click.Command):
    """Remembers whether `--` stood before the command: then the command is run to the letter."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        words = ctx.params.get("command") or ()
        ctx.params["exact"] = given[len(given) - len(words) - 1 : len(given) - len(words)] == ["--"]
        return rest


def _complete_file(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


@click.command(
    "run",
    cls=_Run,
    context_settings={"allow_interspersed_args": False},
    epilog=_EXAMPLES,
    short_help="Run a training command and say what limits it.",
)
@click.option("--out", metavar="DIR", type=click.Path(), help="Run folder [default: ./stepscope-runs/NAME-TIME]")
@click.option("--trace", metavar="auto|none|A:B", help="Steps A to B−1 to trace [default: three early steps]")
@click.option("--schedule", metavar="NAME=N,…", help="wait, warmup, active, repeat, skip_first, as in torch")
@click.option("--with", "extras", metavar="WHAT,…", help="Extra trace contents: shapes,memory,stacks,flops,modules")
@click.option("--activities", metavar="WHAT,…", help="Activities to trace: cpu,cuda [default: all available]")
@click.option("--lines", metavar="HZ|none", help="Line samples per second [default: 50]")
@click.option(
    "--loader", type=click.Choice(["off", "on", "all"]), default=DEFAULT_LOADER,
    help=f"Time data loading; all: every batch [default: {DEFAULT_LOADER}]",
)  # fmt: skip
@click.option(
    "--loader-lines", metavar="HZ|none",
    help=f"Line samples per second and worker [default: {DEFAULT_LOADER_LINES_HZ}]",
)  # fmt: skip
@click.option(
    "--set", "settings", metavar="NAME=VALUE,…",
    help="DataLoader settings to try, such as num_workers=4",
)  # fmt: skip
@click.option(
    "--progress", type=click.Choice(["auto", "lines", "none"]), default="auto",
    help="Progress on stderr [default: auto]",
)  # fmt: skip
@click.option(
    "--watchdog", type=click.FloatRange(min=1), metavar="S",
    help="Write all stacks once no step ended for S seconds",
)  # fmt: skip
@click.option("--no-source", is_flag=True, help="Record no lines of your source code")
@click.option("--no-report", is_flag=True, help="Record only, without the report")
@click.option("--quiet", is_flag=True, help="Print errors only")
@click.argument(
    "command",
    metavar="[--] COMMAND [ARGS]...",
    nargs=-1,
    type=click.UNPROCESSED,
    required=False,
    shell_complete=_complete_file,
)
def COMMAND(command: tuple[str, ...], exact: bool, progress: str, no_report: bool, quiet: bool, **words: Any) -> None:
    """Run COMMAND unchanged, time its steps, and say what limits it.

    The job's output, exit code and signals are its own; stepscope writes to stderr only. --set takes num_workers,
    prefetch_factor, persistent_workers, pin_memory, multiprocessing_context and worker_threads.
    """
    if not command:
        raise BadInput("run", "no command to run", next_step="stepscope run -- python train.py")
    if quiet and progress == "lines":
        raise BadInput(
            "--quiet", "cannot be given together with --progress lines", next_step="leave out one of the two"
        )
    out, watchdog = words.pop("out"), words.pop("watchdog")
    options = recording(RunOptions(**words))
    to_run = resolve(command, exact=exact)
    if shutil.which(to_run[0], os.F_OK) is None:
        sys.exit(_refuse(to_run[0]))
    folder = run_folder(out, to_run)
    report_process = None if no_report or quiet else ReportProcess(folder)
    show = not quiet and (progress == "lines" or (progress == "auto" and sys.stderr.isatty()))
    ticker, cores = _ticker(folder, report_process, show=show, watchdog=watchdog), asdict(effective_cores())
    with Departure() as departure:
        end = launch(to_run, folder, options, ticker, cores, departure)
        departure.job_has_ended = True  # or never began
        _close_interruptibly(end, folder, report_process, departure, quiet=quiet)
        leave(end)


def _close_interruptibly(
    end: Exit, folder: str, report_process: ReportProcess | None, departure: Departure, *, quiet: bool
) -> None:
    """`_close`, which a signal cuts short: the exit code is the job's all the same."""
    try:
        departure.begin()
        _close(end, folder, report_process, quiet=quiet)
    except KeyboardInterrupt:
        return
    except BrokenPipeError:  # nobody reads what we say: the exit code is the job's all the same
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _refuse(program: str) -> int:
    """Say why there is nothing to run, and return what a shell exits with."""
    if not os.path.isdir(program):
        _say(f"{program}: command not found")
        click.echo("  stepscope run -- python TRAIN.py, or any command that this shell finds", err=True)
        return NOT_FOUND
    _say(f"{program}: is a folder, not a command")
    if os.path.exists(os.path.join(program, RUN)):
        click.echo(f"  stepscope report {_quoted(program)}", err=True)
    else:
        script = os.path.join(os.path.normpath(program), "TRAIN.py")
        click.echo(f"  stepscope run -- python {_quoted(script)}", err=True)
    return NOT_EXECUTABLE


def _ticker(
    folder: str, report_process: ReportProcess | None, *, show: bool, watchdog: float | None
) -> Callable[[int], None]:
    """What happens while the job runs, called some times a second."""
    monitor = JobMonitor(folder, show=show, watchdog=watchdog)

    def tick(pid: int) -> None:
        if report_process is not None:
            report_process.watch()
        monitor.tick(pid)

    return tick


def _close(end: Exit, folder: str, report_process: ReportProcess | None, *, quiet: bool) -> None:
    """Say what limits the job, what was not recorded and what to do next."""
    if end.not_started:
        _say(end.not_started)
        if end.code == NOT_EXECUTABLE:
            click.echo("  chmod +x it, or name the program that runs it: stepscope run -- bash FILE", err=True)
        return
    reported = end.recorded and report_process is not None and _analyze(report_process)
    for note in end.not_recorded[:_NOTES_SHOWN]:
        _say(f"not recorded: {note['what']}: {note['why']}")
    if len(end.not_recorded) > _NOTES_SHOWN:
        _say(f"not recorded: {len(end.not_recorded) - _NOTES_SHOWN} more, see {os.path.join(folder, 'end.json')}")
    if end.recorded and not quiet:
        _say(f"recorded in {folder}")
        if not reported:
            click.echo(f"  stepscope report {_quoted(folder)}", err=True)


def _analyze(report_process: ReportProcess) -> bool:
    """Print the first screen of the report to stderr, from a process of its own; true if it is there."""
    click.echo("", err=True)
    try:
        code, said = report_process.verdict()
    except (OSError, KeyboardInterrupt) as failure:
        _say(f"the recording was not analyzed: {str(failure) or 'interrupted'}")
        return False
    if code:
        lines = said.splitlines()
        why = lines[0] if code == 2 and lines else lines[-1] if lines else f"ended with {code}"
        why = why.removeprefix("stepscope: ")
        _say(why if why.startswith(PARTLY) else f"the recording could not be analyzed: {why}")
    click.echo("", err=True)
    return not code


def _say(words: str) -> None:
    click.echo(f"stepscope: {plain(words, limit=1000)}", err=True)


def _quoted(folder: str) -> str:
    from shlex import quote

    return quote(folder)
