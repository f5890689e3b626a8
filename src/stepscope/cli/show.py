"""`stepscope show`: the table of one analysis, for reading and for other programs."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import click

from stepscope.cli._output import format_for, write_bytes, write_text
from stepscope.cli._plugins import checked_name, completion_of, first_line
from stepscope.core.errors import BadInput

if TYPE_CHECKING:
    import polars as pl

    from stepscope.core.plugins import Group
    from stepscope.core.run import Analysis

__all__ = ["COMMAND"]

_FORMATS = ("table", "json", "csv", "markdown", "parquet")
_SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown", ".parquet": "parquet"}
_ROWS = 200  # rows of a table for reading: more are for a program, and every other format has them all
_LIST = "stepscope show --list"
_EXAMPLES = """\b
Examples:
  stepscope show --list
  stepscope show steps stepscope-runs/train-20260401-120000
  stepscope show device_time trace.json.gz --format json
  stepscope show operators trace.json.gz -o operators.parquet
"""


def _analyses() -> Group[Analysis]:
    from stepscope.core.plugins import Group
    from stepscope.core.run import Analysis

    return Group("analyses", Analysis)


@click.command("show", epilog=_EXAMPLES, short_help="Print the table of one analysis.")
@click.argument("analysis", required=False, shell_complete=completion_of(_analyses, dashes=False))
@click.argument("path", required=False, type=click.Path())
@click.option("--list", "listing", is_flag=True, help="List the analyses.")
@click.option("--format", "form", type=click.Choice(_FORMATS), help="[default: table, or what FILE ends in]")
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Write here instead of standard output.")
@click.option("--rows", type=click.IntRange(min=0), help="At most so many rows; 0: all [default: 200 of a table].")
def COMMAND(
    analysis: str | None, path: str | None, listing: bool, form: str | None, output: str | None, rows: int | None
) -> None:
    """Print ANALYSIS of PATH: a run directory, a PyTorch trace or a folder of ranks.

    Tables and Markdown are for reading; JSON, CSV and Parquet hold times in whole nanoseconds.
    """
    if listing:
        _print_list()
        return
    if analysis is None or path is None:
        lacking = "no analysis was named" if analysis is None else "no run was named"
        raise BadInput(
            "stepscope show", lacking, next_step=f"stepscope show ANALYSIS PATH; `{_LIST}` lists the analyses"
        )
    form = format_for(form, output, _SUFFIXES, "table")
    if form == "parquet" and output in (None, "-") and sys.stdout.isatty():
        raise BadInput("--format parquet", "a terminal cannot show it", next_step="add -o FILE.parquet")
    group = _analyses()
    name = checked_name(group, analysis, _LIST)
    from stepscope.store import open_run

    chosen = group.get(name)
    frame = chosen(open_run(path))
    _write(name.replace("-", "_"), chosen, frame, form, output, rows)


def _write(name: str, analysis: Analysis, frame: pl.DataFrame, form: str, output: str | None, rows: int | None) -> None:
    limit = rows if rows is not None else _ROWS if form in ("table", "markdown") else 0
    shown = frame.head(limit) if limit else frame
    match form:
        case "json":
            from stepscope.render.json import dumps, frame_document

            write_text(dumps(frame_document(name, analysis.columns, shown)), output)
        case "parquet":
            buffer = io.BytesIO()
            shown.write_parquet(buffer)
            write_bytes(buffer.getvalue(), output)
        case "csv":
            from stepscope.render.frames import frame_csv

            to_terminal = output in (None, "-") and sys.stdout.isatty()
            write_text(frame_csv(shown, escape=to_terminal), output)
        case "markdown":
            from stepscope.render.frames import frame_table
            from stepscope.render.markdown import table_markdown

            write_text(table_markdown(frame_table(analysis.columns, shown)), output)
        case _:
            _write_table(analysis, shown, output, hidden=frame.height - shown.height)


def _write_table(analysis: Analysis, frame: pl.DataFrame, output: str | None, *, hidden: int) -> None:
    from stepscope.render.format import counted
    from stepscope.render.frames import frame_table
    from stepscope.render.tables import print_table
    from stepscope.render.terminal import console_for

    stream = sys.stdout if output in (None, "-") else io.StringIO()
    console = console_for(stream)
    print_table(console, frame_table(analysis.columns, frame))
    if hidden:
        click.echo(f"{counted(hidden, 'more row')}: add --rows 0, or --format csv", err=True)
    if isinstance(stream, io.StringIO):
        write_text(stream.getvalue(), output)


def _print_list() -> None:
    from stepscope.core.report import Table
    from stepscope.render.tables import print_table
    from stepscope.render.terminal import console_for

    group = _analyses()
    rows = tuple((name.replace("-", "_"), first_line(group.page(name))) for name in group.names())
    print_table(console_for(sys.stdout), Table("", (("analysis", None), ("one row", None)), rows))
