"""`stepscope show`: the table of one analysis, or one as it was recorded, for reading and for other programs."""

from __future__ import annotations

import io
import os
import shlex
import sys
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli._between import between
from stepscope.cli._opening import Opening, open_for, opening
from stepscope.cli._output import check_output, format_for, write_bytes, write_text
from stepscope.cli._plugins import checked_name, completion_of, first_line
from stepscope.cli._selection import selection
from stepscope.core.errors import BadInput, MissingData

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from stepscope.core.plugins import PluginGroup
    from stepscope.core.run import Analysis, Run
    from stepscope.core.schema import Column
    from stepscope.render.tables import LeftOut

__all__ = ["COMMAND"]

_READ = ("table", "markdown")  # by people
_FORMATS = ("table", "json", "csv", "markdown", "parquet")
_SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown", ".parquet": "parquet"}
_ROWS = 200  # rows of a table for reading: more are for a program, and every other format has them all
_LIST = "stepscope show --list"
_EXAMPLES = """\b
Examples:
  stepscope show --list
  stepscope show steps stepscope-runs/train-20260401-120000
  stepscope show device_time trace.json.gz --format json
  stepscope show modules trace.json.gz --columns module,pass,calls,host_total,device_total
  stepscope show modules trace.json.gz --where depth=1 --where "device_self>1ms" --sort device_total --rows 10
  stepscope show module_operators trace.json.gz --where "module=*.Linear_3" --where pass=backward
  stepscope show memory_operators trace.json.gz --between 1.2s 1.5s
  stepscope show operators trace.json.gz -o operators.parquet
  stepscope show steps gs://bucket/traces/rank_0.json.gz
  stepscope show steps "traces/*.json.gz" --jobs 8 -o steps.parquet
"""


def _analyses() -> PluginGroup[Analysis]:
    from stepscope.core.plugins import PluginGroup
    from stepscope.core.run import Analysis

    return PluginGroup("analyses", Analysis)


@click.command("show", epilog=_EXAMPLES, short_help="Print one table.")
@click.argument("analysis", metavar="[TABLE]", required=False, shell_complete=completion_of(_analyses, dashes=False))
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option("--list", "listing", is_flag=True, help="List the tables")
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), help="Output format [default: table, or by the suffix of FILE]"
)
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Output file [default: standard output]")
@click.option("--rows", metavar="N", type=click.IntRange(min=0), help="Maximum rows; 0: all [default: 200]")
@click.option(
    "--where",
    metavar="CONDITION",
    multiple=True,
    help="Filter rows: 'name=aten::*', 'device_self>1ms'; repeatable",
)
@click.option("--sort", metavar="COLUMN", help="Sort by COLUMN, COLUMN:asc or COLUMN:desc")
@click.option("--columns", "shown", metavar="NAMES", help="Columns to print, with commas between, or all")
@click.option(
    "--between",
    "span",
    metavar="FROM TO",
    nargs=2,
    help="Time range since the first event, such as 350ms 1.2s",
)
@opening
def COMMAND(
    analysis: str | None,
    paths: tuple[str, ...],
    listing: bool,
    form: str | None,
    output: str | None,
    rows: int | None,
    where: tuple[str, ...],
    sort: str | None,
    shown: str | None,
    span: tuple[str, str] | None,
    **words: Any,
) -> None:
    """Print TABLE of PATH: a run folder, a PyTorch trace, a folder of ranks, or a pattern in quotes.

    --list names all tables: those of analyses, and those as recorded, such as loaders or device. Table and Markdown
    formats are for reading; JSON, CSV and Parquet hold times in whole nanoseconds.
    """
    if listing:
        _print_list()
        return
    if analysis is None or not paths:
        raise _lacking(analysis)
    form = format_for(form, output, _SUFFIXES, "table")
    if form == "parquet" and output in (None, "-") and sys.stdout.isatty():
        raise BadInput("--format parquet", "a terminal cannot show it", next_step="add -o FILE.parquet")
    check_output(output)
    _check_order(_analyses(), analysis, paths[0])
    name, columns, compute, leading = _chosen(analysis)
    selected = selection(name, columns, where=where, sort=sort, show=shown)
    if form == "table":
        Thread(target=_import_console, daemon=True).start()  # while another core reads
    run = open_for(compute, paths, Opening(**words))
    whole = _computed(run, span, compute)
    frame = selected.of(whole)
    limit = rows if rows is not None else _ROWS if form in _READ else 0
    told = frame.head(limit) if limit else frame
    start = _start(run, selected.columns, form)
    if form == "table":
        from stepscope.render.frames import columns_by_use

        order = columns_by_use(selected.columns, frame, leading) if shown is None else []
        _write_table(selected.columns, told, output, start, order)
        _say_what_is_hidden(frame.height - told.height)
    else:
        _write(name, selected.columns, told, form, output, start)
    if frame.is_empty() and form == "table":
        _say_why_empty(whole.height)
    _say_what_is_lost(run, paths)


def _computed(run: Run, span: tuple[str, str] | None, compute: Callable[[Run], pl.DataFrame]) -> pl.DataFrame:
    """What `compute` gives, of a range of time if one is named. Raises MissingData with what could fix it."""
    from stepscope.core.boundary import or_failed

    try:
        return or_failed("show", lambda: compute(between(run, span) if span else run))
    except MissingData as missing:
        if "xla" in run.optional("processes", "framework")["framework"]:
            meta = run.optional("meta", "key", "value")
            raise MissingData(missing.what, how=meta.filter(meta["key"] == "no_steps")["value"][0]) from None
        if not span:
            raise
        lacking = f"{missing.what} between {span[0]} and {span[1]}"  # it may be elsewhere in the run
        raise MissingData(lacking, how="widen the range, or leave --between out") from None


def _start(run: Run, columns: tuple[Column, ...], form: str) -> int | None:
    """When the run began, where the table is for reading and holds moments: times of all events are read for it."""
    if form not in _READ:
        return None
    from stepscope.core.time_slice import began
    from stepscope.render.frames import moments

    return began(run) if moments(columns) else None


def _say_what_is_lost(run: Run, paths: tuple[str, ...]) -> None:
    skipped = run.optional("skipped")
    if skipped.is_empty():
        return
    from stepscope.render.format import counted
    from stepscope.report.sections.summary import NO_TRACE

    lost = int(skipped.filter(~skipped["reason"].str.contains(NO_TRACE))["count"].sum())
    if lost:
        command = f"stepscope show skipped {shlex.join(paths)}"
        click.echo(f"left out of the input or repaired: {counted(lost, 'case')}, see `{command}`", err=True)


def _import_console() -> None:
    import stepscope.render.tables
    import stepscope.render.terminal  # noqa: F401


def _lacking(analysis: str | None) -> BadInput:
    nameless = analysis is None or os.path.exists(analysis)
    lacking = "no table was named" if nameless else "no run was named"
    return BadInput("show", lacking, next_step=f"stepscope show TABLE PATH; `{_LIST}` lists the tables")


def _chosen(asked: str) -> tuple[str, tuple[Column, ...], Callable[[Run], pl.DataFrame], tuple[str, ...]]:
    """Name, columns, maker and leading columns of a table: that of an analysis, or one of those that importers fill."""
    from stepscope.core.schema import TABLES

    group = _analyses()
    recorded = asked.replace("-", "_")
    if recorded in TABLES and recorded.replace("_", "-") not in group.names():
        return recorded, TABLES[recorded], partial(_recorded, table=recorded), ()
    name = checked_name(group, asked, _LIST)
    chosen = group.get(name)
    return name.replace("-", "_"), chosen.columns, chosen, chosen.leading


def _recorded(run: Run, *, table: str) -> pl.DataFrame:
    return run.optional(table)


def _check_order(group: PluginGroup[Analysis], analysis: str, path: str) -> None:
    """Raise BadInput if PATH stands first and TABLE second."""
    names = group.names()
    if path.replace("_", "-") in names and analysis.replace("_", "-") not in names and not os.path.exists(path):
        command = f"stepscope show {path.replace('-', '_')} {shlex.quote(analysis)}"
        raise BadInput(analysis, "there is no such table", next_step=f"the table comes first: `{command}`")


def _write(
    name: str, columns: tuple[Column, ...], frame: pl.DataFrame, form: str, output: str | None, start: int | None
) -> None:
    match form:
        case "json":
            from stepscope.render.json import dumps, frame_document

            write_text(dumps(frame_document(name, columns, frame)), output)
        case "parquet":
            buffer = io.BytesIO()
            frame.write_parquet(buffer)
            write_bytes(buffer.getvalue(), output)
        case "csv":
            from stepscope.render.frames import frame_csv

            to_terminal = output in (None, "-") and sys.stdout.isatty()
            write_text(frame_csv(frame, escape=to_terminal), output)
        case _:
            from stepscope.render.frames import frame_table
            from stepscope.render.markdown import table_markdown

            write_text(table_markdown(frame_table(columns, frame, began=start)), output)


def _write_table(
    columns: tuple[Column, ...],
    frame: pl.DataFrame,
    output: str | None,
    start: int | None,
    order: list[str],
) -> None:
    """The first columns of `order` that fit; without it all of them, as they were asked for, and names in full."""
    from stepscope.render.frames import frame_table
    from stepscope.render.tables import print_table
    from stepscope.render.terminal import console_for

    stream = sys.stdout if output in (None, "-") else io.StringIO()
    console = console_for(stream)
    table = frame_table(columns, frame, tree=True, began=start, order=order)
    left = print_table(console, table, whole=not order)
    if isinstance(stream, io.StringIO):
        write_text(stream.getvalue(), output)
    if table.rows:
        _say_what_is_left_out(left, console.width)


def _say_what_is_left_out(left: LeftOut, room: int) -> None:
    """On one line, so that it does not outweigh the table."""
    from stepscope.render.format import counted

    if not left.columns:
        if left.parts_of_names:
            click.echo("names in full: add --columns all", err=True)
        return
    more = "and names in full " if left.parts_of_names else ""
    line = f"{counted(len(left.columns), 'more column')} {more}with --columns all: "
    names = ", ".join(heading.partition(",")[0] for heading in left.columns)
    if len(line + names) > room:
        names = f"{names[: room - len(line) - 3].rpartition(',')[0]}, …"
    click.echo(line + names, err=True)


def _say_what_is_hidden(rows: int) -> None:
    if rows:
        from stepscope.render.format import counted

        click.echo(f"{counted(rows, 'more row')}: add --rows 0, or --format csv", err=True)


def _say_why_empty(recorded: int) -> None:
    from stepscope.render.format import counted

    why = f"none of {counted(recorded, 'row')} passes --where" if recorded else "nothing of this kind was recorded"
    click.echo(f"no rows: {why}", err=True)


def _print_list() -> None:
    from stepscope.core.report import Table
    from stepscope.core.schema import TABLES
    from stepscope.render.tables import print_table
    from stepscope.render.terminal import console_for

    group = _analyses()
    rows = tuple((name.replace("-", "_"), first_line(group.page(name))) for name in group.names())
    console = console_for(sys.stdout)
    print_table(console, Table("", (("table", None), ("one row", None)), rows))
    recorded = sorted({*TABLES} - {name for name, _ in rows})
    click.echo(f"\nTables as they were recorded (docs/tables.md):\n{', '.join(recorded)}")
