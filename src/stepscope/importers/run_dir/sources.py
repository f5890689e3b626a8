"""Source lines that a process kept around the places it names."""

import polars as pl

from stepscope.core.importing import Sink
from stepscope.core.schema import TABLES, polars_schema
from stepscope.importers.run_dir.json_files import Note, Row, number, word

__all__ = ["add_sources"]

Known = set[tuple[str, int]]
_SCHEMA = polars_schema(TABLES["sources"])


def add_sources(rows: list[Row], rank: int, pid: str, known: Known, note: Note, sink: Sink) -> None:
    """Add the lines of rows with `file`, `first` and `lines`, but those of `known`, which grows by them."""
    fresh: list[tuple[str, int, str]] = []
    for row in rows:
        file, first, lines = word(row.get("file")), number(row.get("first")), row.get("lines")
        if not file or first is None or not isinstance(lines, list):
            note("source lines without a file or a number: left out", 1)
            continue
        for line, text in enumerate(map(word, lines), first):
            if text is not None and (file, line) not in known:
                known.add((file, line))
                fresh.append((file, line, text))
    if fresh:
        table = pl.DataFrame([(rank, pid, *row) for row in fresh], schema=_SCHEMA, orient="row")
        sink.add("sources", {name: table[name] for name in table.columns})
