"""`stepscope tune`: run the job for short trials with other settings, and say which wins and what line to change."""

import io
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepscope.cli._folder import run_folder
from stepscope.cli._output import check_output, format_for, write_text
from stepscope.collect.launch import resolve
from stepscope.core.errors import BadInput
from stepscope.observe.cores import effective_cores
from stepscope.render.format import counted, plain, quantity
from stepscope.run_format.files import TUNING

if TYPE_CHECKING:
    from stepscope.experiments.change import CodeChange
    from stepscope.experiments.loader import TuneAnswer
    from stepscope.experiments.successive_halving import Results
    from stepscope.experiments.trial_result import Setting, TrialResult

__all__ = ["COMMAND"]

_SUFFIXES = {".json": "json", ".md": "markdown", ".markdown": "markdown"}
_UNITS = {"s": 1, "m": 60, "h": 3600}
_EXAMPLES = """\b
Examples:
  stepscope tune loader -- python train.py --epochs 3
  stepscope tune loader --budget 15m -- torchrun --nproc-per-node 2 train.py
  stepscope tune loader --steps 200 --format json -o loader.json -- python train.py
"""


@click.group("tune", epilog=_EXAMPLES, short_help="Measure other settings in short trials of the job.")
def COMMAND() -> None:
    """Measure other settings in short trials of the job. Print the fastest one and the line to change.

    The script is not edited.
    """


@COMMAND.command(
    "loader",
    context_settings={"allow_interspersed_args": False},
    epilog=_EXAMPLES,
    short_help="Try num_workers, prefetch_factor and pin_memory of the training DataLoader.",
)
@click.option("--budget", metavar="TIME", default="5m", help="Time for all trials: 90s, 5m, 1h [default: 5m]")
@click.option(
    "--steps", metavar="N", type=click.IntRange(10), default=60,
    help="Steps per trial after warm-up [default: 60]",
)  # fmt: skip
@click.option("--workers", metavar="N,…", help="Worker counts to try [default: chosen by core count]")
@click.option("--out", metavar="DIR", type=click.Path(), help="Folder for the trials [default: ./stepscope-runs/…]")
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "json", "markdown")),
    help="Output format [default: text, or by the suffix of FILE]",
)
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Output file [default: standard output]")
@click.argument("command", metavar="[--] COMMAND [ARGS]...", nargs=-1, type=click.UNPROCESSED)
def _loader(
    command: tuple[str, ...], budget: str, steps: int, workers: str | None, out: str | None, form: str | None,
    output: str | None,
) -> None:  # fmt: skip
    """Find num_workers, prefetch_factor, persistent_workers and pin_memory of the DataLoader that trains.

    Each trial starts COMMAND and stops it with SIGTERM after some steps. Every trial writes checkpoints, logs and
    tracker entries; a checkpoint in progress at the end is lost. Use another output folder where that matters. The
    trial's folder holds its output.

    Only loaders for training get the settings. Trials alternate between settings. They end when a difference is clear
    or the budget is spent. There may be no winner.
    """
    if not command:
        raise BadInput("tune loader", "no command to run", next_step="stepscope tune loader -- python train.py")
    form = format_for(form, output, _SUFFIXES, "text")
    check_output(output)
    seconds, numbers = _seconds(budget), _numbers(workers)
    words = resolve(command)
    if shutil.which(words[0], os.F_OK) is None:
        raise BadInput(words[0], "command not found", next_step="stepscope tune loader -- python TRAIN.py")
    from stepscope.experiments.trials import leave_when_asked

    leave_when_asked()
    folder = run_folder(out, words, "tune-")
    asked = _Asked(command=words, seconds=seconds, steps=steps, workers=numbers, folder=folder)
    try:
        answer = _tuned(asked, form)
    except (KeyboardInterrupt, SystemExit):
        _say(f"the trials so far are in {folder}")
        raise
    write_text(answer, output)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    command: list[str]
    seconds: float
    steps: int
    workers: tuple[int, ...]
    folder: str


def _tuned(asked: _Asked, form: str) -> str:
    """Run the trials, remember what won, and give the text of the answer."""
    from stepscope.cli._job_monitor import watch
    from stepscope.experiments.change import change_for
    from stepscope.experiments.document import document_of
    from stepscope.experiments.kept import recall, remember
    from stepscope.experiments.loader import tune_loader
    from stepscope.experiments.trials import Trials
    from stepscope.render.json import dumps

    cores = effective_cores().effective
    before = recall(asked.command, Path.cwd(), cores)
    if before is not None:
        said = (
            f"{before.setting.text()} won on {before.day} for this command here, {quantity(before.times_as_fast, None)}"
        )
        _say(f"{said}× as fast; it is tried first")
    result = tune_loader(
        Trials(asked.command, asked.folder, asked.steps, watch),
        cores=cores,
        seconds=asked.seconds,
        clock=time.monotonic,
        told=_tell,
        hint=before.setting if before else None,
        only=asked.workers,
    )
    remember(result, asked.command, Path.cwd(), cores)
    change = change_for(result.winner, result.loader) if result.winner else None
    document = dumps(document_of(result, change, asked.command, asked.folder))
    write_text(document, os.path.join(asked.folder, TUNING))
    return document if form == "json" else _text(result, change, asked, form)


def _text(result: "TuneAnswer", change: "CodeChange | None", asked: _Asked, form: str) -> str:
    from stepscope.experiments.page import page_of

    page = page_of(result, change, asked.command, asked.folder)
    if form == "markdown":
        from stepscope.render.markdown import page_markdown

        return page_markdown(page)
    from stepscope.render.terminal import console_for, print_document

    stream = io.StringIO()
    print_document(console_for(stream), page)
    return stream.getvalue()


def _tell(setting: "Setting", outcome: "TrialResult", results: "Results") -> None:
    """One line for each trial."""
    from stepscope.experiments.trial_result import AS_IT_IS

    why = outcome.refused or outcome.failed
    if outcome.failed and len(results.outcomes) == 1:
        return  # the first trial: it is the error that ends the command
    if why is not None:
        _say(f"{setting.text()}: {'refused, ' if outcome.refused else ''}{why}")
        return
    pace = quantity(float(outcome.times.mean()), "ns") if len(outcome.times) else "no steps"
    own_too = max(results.outcomes[setting]) in results.measured(AS_IT_IS)  # else it is the ratio of the rounds before
    ratio = results.ratio(setting) if own_too else None
    against = f", {quantity(ratio.estimate, None)}× as fast as it is" if ratio else ""
    _say(f"{setting.text()}: {pace} a step{against} ({counted(len(outcome.times), 'step')}, {outcome.wall_s:.0f} s)")


def _say(words: str) -> None:
    click.echo(f"stepscope: {plain(words, limit=1000)}", err=True)


def _seconds(budget: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", budget.strip(), re.ASCII)
    if not found or not float(found[1]):
        raise BadInput("--budget", f"{budget!r} is no time", next_step="write --budget 90s, 5m or 1h")
    return float(found[1]) * _UNITS[found[2]]


def _numbers(workers: str | None) -> tuple[int, ...]:
    words = [word.strip() for word in workers.split(",")] if workers is not None else []
    for word in words:
        if not re.fullmatch(r"\d{1,3}", word, re.ASCII):
            raise BadInput("--workers", f"{word!r} is no number of workers", next_step="write --workers 2,4,8")
    return tuple(dict.fromkeys(map(int, words)))
