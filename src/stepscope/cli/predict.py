"""`stepscope predict`: the training step with another input pipeline, from a run that was recorded as it is."""

from __future__ import annotations

import io
import sys
from functools import partial
from math import inf, isfinite
from typing import TYPE_CHECKING

import click

from stepscope.cli._opening import Opening, open_for
from stepscope.cli._output import check_output, format_for, write_text
from stepscope.core.errors import BadInput

if TYPE_CHECKING:
    import polars as pl

    from stepscope.core.run import Run

__all__ = ["COMMAND"]

_MODELS = ("loader",)
_SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown"}
_MS = 1_000_000  # ns
_MOST = 64  # workers: no table is read further
_EXAMPLES = """\b
Examples:
  stepscope predict loader stepscope-runs/train-20260401-120000
  stepscope predict loader RUN --workers 1,2,4,8
  stepscope predict loader RUN --faster RandomMask=10 --workers 2
  stepscope predict loader RUN --without decode --without read
  stepscope predict loader RUN --without Normalize --in-training 1.5
  stepscope predict loader RUN --persistent --prefetch 4
  stepscope predict loader RUN --batch-size 64 --workers 4
  stepscope predict loader RUN --calibrate --format json
"""


@click.command("predict", epilog=_EXAMPLES, short_help="Predict the step with another input pipeline.")
@click.argument("model", metavar="loader", type=click.Choice(_MODELS))
@click.argument("path", type=click.Path())
@click.option(
    "--workers", "numbers", metavar="NUMBERS", default="0:16",
    help="Worker counts: 4, or 1,2,4, or 0:16 [default: 0:16]",
)  # fmt: skip
@click.option(
    "--faster", metavar="NAME=K", multiple=True,
    help="Make NAME K× faster; repeatable",
)  # fmt: skip
@click.option("--without", metavar="NAME", multiple=True, help="Make NAME take no time, as if cached; repeatable")
@click.option(
    "--in-training", "moved", metavar="MS", type=click.FloatRange(min=0), default=0.0,
    help="Work per batch moved from workers to training, ms",
)  # fmt: skip
@click.option("--prefetch", metavar="N", type=click.IntRange(min=1), help="prefetch_factor [default: as recorded]")
@click.option(
    "--batch-size", metavar="N", type=click.IntRange(min=1), help="batch_size, in samples [default: as recorded]"
)
@click.option("--persistent", is_flag=True, help="Set persistent_workers=True")
@click.option(
    "--calibrate", is_flag=True,
    help="Measure by a short trial of the recorded command",
)  # fmt: skip
@click.option("--rank", metavar="N", type=click.IntRange(min=0), help="Rank [default: the one that waits longest]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv", "markdown"]),
    help="Output format [default: table, or by the suffix of FILE]",
)
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Output file [default: standard output]")
def COMMAND(
    model: str,
    path: str,
    numbers: str,
    faster: tuple[str, ...],
    without: tuple[str, ...],
    moved: float,
    prefetch: int | None,
    batch_size: int | None,
    persistent: bool,
    calibrate: bool,
    rank: int | None,
    form: str | None,
    output: str | None,
) -> None:
    """Predict the mean training step of PATH, recorded with `stepscope run`, after a change.

    --faster and --without take names of `stepscope show loader_transforms`, in full or the last part. They also take
    the stages sample, transform, decode, read, label, collate, fetch, serialize and step. batch=8 makes batches 8×
    smaller, as uint8 instead of float64 does.

    Times are per step. With --batch-size, the growth of a step is an assumption, and `saved` is per sample.
    --format json has whole nanoseconds.

    --calibrate runs the recorded command once more and stops it with SIGTERM after about 160 steps. The command
    writes its checkpoints, logs and tracker entries again. In part of this trial, training gets batches that are
    ready. PATH keeps the result for later predictions.
    """
    form = format_for(form, output, _SUFFIXES, "table")
    check_output(output)
    workers = _numbers(numbers)
    if not isfinite(moved):
        raise BadInput("--in-training", f"{moved} is no time", next_step="write --in-training 1.5")
    factors = (*map(_factor, faster), *((name, inf) for name in without))
    from stepscope.models.loader_model import LoaderChange
    from stepscope.models.loader_table import loader_table

    change = LoaderChange(
        faster=factors, prefetch=prefetch, persistent=persistent, batch_size=batch_size, moved=moved * _MS
    )
    run = _opened(path)
    frame = loader_table(run, workers, change, _trial(path, calibrate), rank)
    _write(frame, form, output)


def _opened(path: str) -> Run:
    from stepscope.analyses.input_pipeline.loader_transforms import loader_transforms

    return open_for(loader_transforms, [path], Opening(jobs=None, dask=None, no_cache=False))


def _trial(path: str, calibrate: bool) -> Run | None:
    """The trial of a run: the one that it holds, or a new one if that is asked for."""
    from stepscope.cli._job_monitor import watch
    from stepscope.experiments.calibration import kept_trial, make_trial
    from stepscope.experiments.trials import leave_when_asked
    from stepscope.storage import open_run

    folder = kept_trial(path)
    if folder is None and calibrate:
        leave_when_asked()
        folder = make_trial(path, partial(watch, show=sys.stderr.isatty()), lambda: _say_trial(path))
    elif calibrate:
        click.echo(f"stepscope: the trial in {folder} is used; remove it for a new one", err=True)
    return None if folder is None else open_run(folder)


def _say_trial(path: str) -> None:
    from stepscope.render.format import plain

    click.echo(f"stepscope: runs the command of {plain(path)} again, for a trial", err=True)


def _numbers(text: str) -> list[int]:
    """The numbers of `4`, `1,2,4` or `0:16`. Raises BadInput."""
    found: list[int] = []
    for part in text.split(","):
        first, colon, last = part.strip().partition(":")
        ends = [first, last] if colon else [first, first]
        if not all(end.isascii() and end.isdigit() for end in ends) or not int(ends[0]) <= int(ends[1]) <= _MOST:
            raise BadInput(
                "--workers", f"{text!r} is no number of workers from 0 to {_MOST}, list or range",
                next_step="write --workers 4, --workers 1,2,4 or --workers 0:16",
            )  # fmt: skip
        found += range(int(ends[0]), int(ends[1]) + 1)
    return list(dict.fromkeys(found))


def _factor(text: str) -> tuple[str, float]:
    name, _, factor = text.rpartition("=")
    try:
        value = float(factor)
    except ValueError:
        value = 0.0
    if not name or not value > 0:
        raise BadInput(
            "--faster", f"{text!r} is not NAME=NUMBER with a number above 0", next_step="write --faster RandomMask=10"
        )
    return name, value


def _write(frame: pl.DataFrame, form: str, output: str | None) -> None:
    from stepscope.models.loader_table import COLUMNS

    if form == "json":
        from stepscope.render.json import dumps, frame_document

        write_text(dumps(frame_document("loader_prediction", COLUMNS, frame)), output)
        return
    from stepscope.render.frames import frame_csv, frame_table

    if form == "csv":
        write_text(frame_csv(frame, escape=output is None and sys.stdout.isatty()), output)
        return
    shown = frame.drop("basis") if frame["rank"].n_unique() > 1 else frame.drop("basis", "rank")
    table = frame_table(COLUMNS, shown)
    if form == "markdown":
        from stepscope.render.markdown import table_markdown

        write_text(table_markdown(table), output)
    else:
        from stepscope.render.tables import print_table
        from stepscope.render.terminal import console_for

        stream = sys.stdout if output in (None, "-") else io.StringIO()
        print_table(console_for(stream), table)
        if isinstance(stream, io.StringIO):
            write_text(stream.getvalue(), output)
    click.echo(f"basis: {frame['basis'][0]}", err=True)
