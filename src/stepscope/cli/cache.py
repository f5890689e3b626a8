"""`stepscope cache`: the traces that need not be parsed again, and how to forget them."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from stepscope.cli._output import write_text
from stepscope.core.errors import BadInput

if TYPE_CHECKING:
    from stepscope.core.schema import Unit
    from stepscope.storage.cache import Cache
    from stepscope.storage.kept import Kept

__all__ = ["COMMAND"]

_COLUMNS: tuple[tuple[str, Unit | None], ...] = (
    ("trace", None),
    ("size", "bytes"),
    ("events", "count"),
    ("last used", None),
)
_EXAMPLES = """\b
Examples:
  stepscope cache
  stepscope cache --format json
  stepscope cache --clear trace.json.gz
  stepscope cache --clear
"""


@click.command("cache", epilog=_EXAMPLES, short_help="Show or clear the cache of parsed traces.")
@click.argument("traces", nargs=-1, type=click.Path(), metavar="[TRACE]...")
@click.option("--clear", is_flag=True, help="Remove TRACEs, or everything without TRACE")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format [default: text]"
)
def COMMAND(traces: tuple[str, ...], clear: bool, form: str) -> None:
    """Show the parsed traces in the cache. They open fast the next time.

    Traces are found by content, so a moved or copied file stays cached. Beyond 20 GB or a tenth of the free disk, the
    least recently used traces are removed. STEPSCOPE_CACHE_DIR sets the folder. Other commands take --no-cache.

    The cache also holds reports that `stepscope view` shows at once. --clear always removes all of them.
    """
    from stepscope.cli._report_cache import forget_reports
    from stepscope.storage.cache import VARIABLE, user_cache
    from stepscope.storage.kept import forget, forget_all, kept

    cache = user_cache()
    if cache is None:
        raise BadInput("the cache", "there is no home folder to keep it in", next_step=f"Set {VARIABLE} to a folder.")
    entries = kept(cache, traces)
    if traces and not entries:
        hint = "stepscope cache --clear" if "clear" in traces else "`stepscope cache` lists what is"
        raise BadInput(", ".join(traces), "not in the cache", next_step=hint)
    if clear and traces:
        forget(cache, entries)
    elif clear:
        forget_all(cache)
    if clear:
        forget_reports(cache.folder)
    (_write_json if form == "json" else _print)(cache, entries, cleared=clear)


def _write_json(cache: Cache, entries: list[Kept], *, cleared: bool) -> None:
    from stepscope.render.json import dumps
    from stepscope.storage.kept import limit

    rows = [
        {"trace": one.trace, "size": one.size, "events": one.events, "rows": dict(one.rows), "last_used": one.used}
        for one in entries
    ]
    document = {
        "schema": "stepscope-cache",
        "version": 1,
        "folder": str(cache.folder),
        "total": sum(one.size for one in entries),
        "limit": limit(cache),
        "cleared": cleared,
        "entries": rows,
    }
    write_text(dumps(document), None)


def _print(cache: Cache, entries: list[Kept], *, cleared: bool) -> None:
    from stepscope.core.report import Table, Text, Value
    from stepscope.render.format import counted, text
    from stepscope.render.tables import print_table
    from stepscope.render.terminal import console_for
    from stepscope.storage.kept import limit

    total = Value(sum(one.size for one in entries), "bytes")
    folder = str(cache.folder).replace("{", "{{").replace("}", "}}")
    traces = counted(len(entries), "trace")
    if cleared:
        click.echo(text(Text(f"Removed {traces}, {{}}, from {folder}.", (total,))))
        return
    most = Value(limit(cache), "bytes")
    click.echo(text(Text(f"{folder} holds {traces}, {{}} of at most {{}}.", (total, most))))
    if entries:
        rows = tuple((one.trace, one.size, one.events, _minute(one.used)) for one in entries)
        click.echo()
        print_table(console_for(sys.stdout), Table("", _COLUMNS, rows))


def _minute(moment: int) -> str:
    """A time in ns since the epoch as the clock on the wall shows it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment // 10**9))
