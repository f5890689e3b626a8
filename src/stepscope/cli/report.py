"""`stepscope report`: what limits a recorded run, how to fix it, and what that saves."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli._opening import Opening, open_for, opening
from stepscope.cli._output import check_output, check_page, format_for, write_text
from stepscope.core.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from stepscope.core.run import Run
    from stepscope.render.document import Report

__all__ = ["COMMAND"]

_FORMATS = ("text", "json", "markdown", "html")
_SUFFIXES = {".json": "json", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}
_EXAMPLES = """\b
Examples:
  stepscope report stepscope-runs/train-20260401-120000
  stepscope report trace.json.gz
  stepscope report trace.json.gz --full
  stepscope report trace.json.gz --checks
  stepscope report stepscope-runs/train-20260401-120000 --price 3.50/h
  stepscope report folder-of-ranks/ --format html -o report.html
  stepscope report "traces/*.json.gz" --jobs 8
  stepscope report /shared/traces --dask tcp://scheduler:8786
  stepscope report s3://bucket/run-7 -o s3://bucket/run-7/report.html
  stepscope report stepscope-runs
  stepscope report trace.json --format json | python -m json.tool
"""


def _per_hour(_context: click.Context, _option: click.Parameter, words: str | None) -> float | None:
    """`3.50/h`, `3.50` or `$3.50/h` as a number."""
    if words is None:
        return None
    try:
        price = float(words.strip().removesuffix("/h").strip("$€£¥ ").replace(",", ""))
    except ValueError:
        price = nan
    if not (isfinite(price) and price >= 0):
        raise BadInput("--price", f"{words} is not a price per hour", next_step="give a number, such as --price 3.50/h")
    return price


@click.command("report", epilog=_EXAMPLES, short_help="Say what limits a recorded run and how to fix it.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), help="Output format [default: text, or by the suffix of FILE]"
)
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Output file [default: standard output]")
@click.option("--full", is_flag=True, help="Everything: all evidence, all sections")
@click.option("--checks", is_flag=True, help="Every rule: what it found, or which data it needs")
@click.option("--price", metavar="PRICE", callback=_per_hour, help="Price per hour of the job, such as 3.50/h")
@click.option("--report-process", is_flag=True, hidden=True)
@opening
def COMMAND(
    paths: tuple[str, ...],
    form: str | None,
    output: str | None,
    full: bool,
    checks: bool,
    price: float | None,
    report_process: bool,
    **words: Any,
) -> None:
    """Report on PATH: a run folder, a PyTorch trace (.json, .json.gz), a folder of ranks, or a pattern in quotes.

    Several PATHs are the ranks of one job. A folder of run folders gives a list of the runs. PATH and FILE may be
    URLs: s3://, gs://, abfs://; PATH also https://.
    """
    form = format_for(form, output, _SUFFIXES, "text")
    _check_screen(form, full=full, checks=checks)
    check_output(output)
    if form == "html":
        check_page(output)
    listable = form in ("text", "json") and not (full or checks or price or report_process)
    if listable and _list(paths, form, output, Opening(**words)):
        return
    from stepscope.report.assemble import assemble, first_screen

    if report_process:
        _stand_by()
    build = assemble if full or form != "text" else first_screen
    run = open_for(build, paths, Opening(**words))
    report = build(run)
    if price is not None:
        from stepscope.report.price import with_price

        report = with_price(report, run, price)
    failed = report.failed
    match form:
        case "json":
            from stepscope.render.json import dumps, report_document

            write_text(dumps(report_document(report)), output)
        case "markdown":
            from stepscope.render.markdown import report_markdown

            write_text(report_markdown(report), output)
        case "html":
            from stepscope.core.boundary import Failure, attempt
            from stepscope.render.html import report_html
            from stepscope.timeline import excerpt

            drawn = attempt("timeline", lambda: excerpt(run))
            failed += ("timeline",) if isinstance(drawn, Failure) else ()
            write_text(report_html(report, {} if isinstance(drawn, Failure) else drawn), output)
        case _:
            from stepscope.render.terminal import print_checks
            from stepscope.render.terminal_card import print_card, print_report

            _print(print_report if full else print_checks if checks else print_card, report, output, paged=full)
            _keep_first(run, paths, words, just_ended=report_process)
    _end_with(failed)


def _keep_first(run: Run, paths: Sequence[str], words: Mapping[str, Any], *, just_ended: bool) -> None:
    """What `stepscope view` shows first is there already when the user asks for it: most of it was just made."""
    from stepscope.cli._report_cache import first_of, keep_report, place_of
    from stepscope.render.json import dumps, report_document
    from stepscope.report.assemble import first_view

    place = None if words["no_cache"] else first_of(place_of(paths, just_ended=just_ended))
    if place is not None:
        keep_report(place, dumps(report_document(first_view(run))))


def _list(paths: tuple[str, ...], form: str, output: str | None, options: Opening) -> bool:
    """Print the runs of a folder that holds several; False for any other path."""
    from stepscope.storage.listing import runs_in

    found = runs_in(paths[0]) if len(paths) == 1 else []
    if not found:
        return False
    from stepscope.render.run_list import run_list_document, run_list_table
    from stepscope.report.assemble import first_screen
    from stepscope.report.run_list import list_runs

    runs = list_runs(found, lambda path: open_for(first_screen, [path], options))
    if form == "json":
        from stepscope.render.json import dumps

        write_text(dumps(run_list_document(paths[0], runs)), output)
        return True
    from stepscope.render.tables import print_table
    from stepscope.render.terminal import console_for

    stream = sys.stdout if output in (None, "-") else io.StringIO()
    print_table(console_for(stream), run_list_table(runs))
    if isinstance(stream, io.StringIO):
        write_text(stream.getvalue(), output)
    return True


def _print(draw: Callable[[Console, Report], None], report: Report, output: str | None, *, paged: bool) -> None:
    """Draw on a terminal, into a pipe or into a file; `paged`: a pager shows what is longer than the terminal."""
    from stepscope.render.terminal import console_for

    if output not in (None, "-"):
        text = io.StringIO()
        draw(console_for(text), report)
        write_text(text.getvalue(), output)
    elif paged and sys.stdout.isatty():
        from stepscope.cli._pager import paged_output

        with paged_output(sys.stdout) as stream:
            draw(console_for(stream), report)
    else:
        draw(console_for(sys.stdout), report)


def _check_screen(form: str, *, full: bool, checks: bool) -> None:
    """Raise BadInput for a part of the text that another format, or another part, excludes."""
    if full and checks:
        raise BadInput("--checks", "cannot be given together with --full", next_step="leave out one of the two")
    for name, asked in (("--full", full), ("--checks", checks)):
        if asked and form != "text":
            raise BadInput(name, f"is for text, not for {form}", next_step=f"leave out {name}")


def _end_with(failed: tuple[str, ...]) -> None:
    """Say what failed on stderr, with an exit code of its own: everything else was written."""
    if failed:
        from stepscope.cli._report_process import PARTLY
        from stepscope.cli.main import FAILED

        click.echo(f"stepscope: {PARTLY}{', '.join(failed)}", err=True)
        click.get_current_context().exit(FAILED)


def _stand_by() -> None:
    """Import what the first screen of a run takes, then wait until the job is over."""
    from stepscope.cli._report_process import NOT_TOLD, told
    from stepscope.importers import run_dir  # noqa: F401
    from stepscope.render import terminal_card  # noqa: F401
    from stepscope.report.diagnose import RULES

    RULES.load()
    if not told():
        sys.exit(NOT_TOLD)
