"""`stepscope compare`: which of two runs is faster, whether noise could make the difference, and what explains it."""

import io
import sys
from typing import Any

import click

from stepscope.cli._opening import Opening, open_for, opening
from stepscope.cli._output import check_output, check_page, format_for, write_text

__all__ = ["COMMAND"]

_FORMATS = ("text", "json", "markdown", "html")
_SUFFIXES = {".json": "json", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}
_EXAMPLES = """\b
Examples:
  stepscope compare stepscope-runs/before stepscope-runs/after
  stepscope compare a100.json.gz mi300.json.gz
  stepscope compare "before/*.json.gz" "after/*.json.gz" --jobs 8
  stepscope compare before/ after/ --format markdown > comment.md
  stepscope compare before/ after/ -o comparison.html
"""


@click.command("compare", epilog=_EXAMPLES, short_help="Say which of two runs is faster, and what explains it.")
@click.argument("a", metavar="A", type=click.Path())
@click.argument("b", metavar="B", type=click.Path())
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), help="Output format [default: text, or by the suffix of FILE]"
)
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Output file [default: standard output]")
@opening
def COMMAND(a: str, b: str, form: str | None, output: str | None, **words: Any) -> None:
    """Compare run B with run A: each a run folder, a PyTorch trace, a folder of ranks, or a pattern in quotes.

    They may be of different devices, numbers of ranks and frameworks; the comparison says where they differ. Markdown
    is made for a comment on a pull request.
    """
    form = format_for(form, output, _SUFFIXES, "text")
    check_output(output)
    if form == "html":
        check_page(output)
    from stepscope.compare.comparison import compare
    from stepscope.compare.run_summary import measure

    options = Opening(**words)
    sides = [measure(open_for(measure, (path,), options)) for path in (a, b)]
    comparison = compare(*sides)
    if form == "json":
        from stepscope.compare.document import document_of
        from stepscope.render.json import dumps

        write_text(dumps(document_of(comparison)), output)
        return
    from stepscope.compare.page import page_of

    page = page_of(comparison)
    match form:
        case "markdown":
            from stepscope.render.markdown import page_markdown

            write_text(page_markdown(page), output)
        case "html":
            from stepscope.render.html import page_html

            write_text(page_html(page), output)
        case _:
            from stepscope.render.terminal import console_for, print_document

            stream = sys.stdout if output in (None, "-") else io.StringIO()
            print_document(console_for(stream), page)
            if isinstance(stream, io.StringIO):
                write_text(stream.getvalue(), output)
