"""`stepscope view`: the report as a page, or two with their comparison, and every table, served on this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli._opening import Opening, open_for, opening_options
from stepscope.core.errors import BadInput, StepscopeError
from stepscope.core.memory import import_arrays
from stepscope.run_format.files import RUN

if TYPE_CHECKING:
    from stepscope.web import Opened
    from stepscope.web.serving import Serving

__all__ = ["COMMAND"]

_EXAMPLES = """\b
Examples:
  stepscope view stepscope-runs/train-20260401-120000
  stepscope view trace.json.gz --no-browser --port 8000
  stepscope view "traces/*.json.gz" --jobs 8
  stepscope view stepscope-runs
  stepscope view --compare stepscope-runs/before stepscope-runs/after
  ssh -L 8000:localhost:8000 machine stepscope view RUN --no-browser --port 8000
"""


@click.command("view", epilog=_EXAMPLES, short_help="Open a recorded run as a page in the browser.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@click.option("--compare", is_flag=True, help="Serve two runs, A and B, and their comparison")
@click.option("--no-browser", is_flag=True, help="Print the address only")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on")
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), default=0, help="Port [default: a free one]")
@opening_options
def COMMAND(paths: tuple[str, ...], compare: bool, no_browser: bool, host: str, port: int, **words: Any) -> None:
    """Serve PATH as a page: a run folder, a PyTorch trace, a folder of ranks, or a pattern in quotes.

    It is the page of `report --format html`, with all rows of every table. By default only this machine can open it.
    With another --host, every request needs the token in the printed address.

    Several PATHs are the ranks of one run. With --compare they are two runs. A folder of run folders opens as a
    list of them.
    """
    if compare and len(paths) != 2:
        told = f"takes two runs, and {len(paths)} PATHs were named"
        raise BadInput("--compare", told, next_step="name a folder, or a pattern in quotes, for a run of several ranks")
    from stepscope.render.app_page import app_file
    from stepscope.web.serving import Serving, listening

    app_file("app.js")  # before the work, if it is missing
    made = listening(host, port)
    serving = Serving(made, host, browser=not no_browser, say=lambda at: click.echo(f"{at}  (Ctrl-C ends it)"))
    options = Opening(**words)
    several = _both(paths, options) if compare else _listed(paths, options)
    try:
        if several is not None:
            serving.start(several)
        else:
            _read_and_serve(serving, paths, options)
        serving.wait()
    finally:
        serving.stop()


def _read_and_serve(serving: Serving, paths: tuple[str, ...], options: Opening) -> None:
    """Serve the page while the run is read; where a path is not there at all, no page says so."""
    from stepscope.cli._view_reading import ReadForPage

    reading = ReadForPage(paths, options)
    if all(map(os.path.exists, paths)):
        serving.start(reading.opened())
    try:
        reading.read()
    except StepscopeError:
        serving.linger(reading.told)
        raise
    serving.start(reading.opened())


def _both(paths: tuple[str, ...], options: Opening) -> Opened:
    """The comparison of two runs, with both of them beside it; it is of the runs as they are now."""
    from stepscope.web import Opened

    a, b = (_opened((path,), options) for path in paths)
    document = _comparison(a, b)
    return Opened(run=a.run, document=lambda: document, beside={"a": a, "b": b})


def _comparison(a: Opened, b: Opened) -> dict[str, object]:
    from stepscope.compare.comparison import compare
    from stepscope.compare.page import page_of
    from stepscope.compare.run_summary import measure
    from stepscope.render.json import page_document

    return page_document(page_of(compare(measure(a.run()), measure(b.run()))))


def _listed(paths: tuple[str, ...], options: Opening) -> Opened | None:
    """The list of the runs in a folder, each of them opened when it is first looked at; None for any other path."""
    if len(paths) != 1 or not os.path.isdir(paths[0]) or os.path.isfile(os.path.join(paths[0], RUN)):
        return None
    import_arrays()
    from stepscope.cli._report_cache import Later
    from stepscope.storage.listing import runs_in
    from stepscope.web import Opened

    found = runs_in(paths[0])
    if not found:
        return None
    from stepscope.render.run_list import run_list_document
    from stepscope.report.assemble import first_screen
    from stepscope.report.run_list import list_runs

    runs = list_runs(found, lambda path: open_for(first_screen, [path], options))
    beside = {str(at): _opened_later(run.path, options) for at, run in enumerate(runs, 1) if not run.problem}
    document = run_list_document(paths[0], runs)
    none = Later(lambda: open_for(first_screen, [runs[0].path], options))
    return Opened(
        run=none, document=lambda: document, beside=beside, path=paths[0],
        compare=lambda a, b: _comparison(beside[a], beside[b]),
    )  # fmt: skip


def _opened_later(path: str, options: Opening) -> Opened:
    from stepscope.cli._report_cache import Later
    from stepscope.web import Opened

    later = Later(lambda: _opened((path,), options))
    return Opened(
        run=lambda: later().run(), document=lambda: later().document(), news=lambda: later().news(), path=path
    )


def _opened(paths: tuple[str, ...], options: Opening) -> Opened:
    from stepscope.cli._view_reading import ReadForPage

    return ReadForPage(paths, options).read_whole()
