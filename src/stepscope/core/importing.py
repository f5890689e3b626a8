"""How importers hand over what they read: columns go to tables, anything unusable is counted."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from stepscope.core.paths import AnyPath, printable
from stepscope.core.run import Run
from stepscope.core.schema import TABLES, empty, polars_schema

__all__ = ["Importer", "Progress", "RankInput", "Reader", "Sink"]

Progress = Callable[[int, int, int], None]
"""Called now and then while a file is read: bytes read so far, bytes in all, events so far."""


@dataclass(slots=True)
class Sink:
    """Collects tables from one or more sources. `skip` is the only way to leave input out, so a report can say so.

    `read_trace` reads a trace inside of what is read; None: the importer that recognizes it.
    """

    parts: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    progress: Progress | None = None
    read_trace: Callable[[AnyPath, "Sink"], None] | None = None

    def add(self, table: str, columns: Mapping[str, Sequence[object] | pl.Series]) -> None:
        """Append rows given as whole columns; columns of the schema that are not given become null."""
        schema = polars_schema(TABLES[table])
        unknown = set(columns) - set(schema)
        if unknown:
            raise KeyError(f"{table} has no column {', '.join(sorted(unknown))}")
        kinds = {name: schema[name] for name in columns}
        try:
            frame = pl.DataFrame(dict(columns), schema=kinds)
        except UnicodeEncodeError:  # names of files may hold bytes that are no text, which no table can hold
            frame = pl.DataFrame({name: list(map(_text, values)) for name, values in columns.items()}, schema=kinds)
        self.parts.setdefault(table, []).append(pl.concat([empty(table), frame], how="diagonal"))

    def row(self, table: str, **values: object) -> None:
        """Append one row; for tables of a few rows."""
        self.add(table, {name: [value] for name, value in values.items()})

    def skip(self, source: str, reason: str, count: int = 1) -> None:
        """Count something of `source` that was left out, or repaired, with the reason a user should read."""
        if count:
            self.skipped[source, reason] += count

    def run(self, path: str) -> Run:
        """Return everything collected so far as a run that was read from `path`."""
        for (source, reason), count in self.skipped.items():
            self.row("skipped", source=source, reason=reason, count=count)
        self.skipped.clear()
        return Run({name: pl.concat(self.parts[name]) if name in self.parts else empty(name) for name in TABLES}, path)


def _text(value: object) -> object:
    return printable(value) if isinstance(value, str) else value


Reader = Callable[[Sink], object]
"""Reads something into a sink; raises BadInput if nothing is usable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankInput:
    """One rank of a folder: where it lies, and what reads it; can be pickled, so another process can read it."""

    path: AnyPath
    read: Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """A format that can be read.

    `sniff` sees a path and, for a file, its first 64 KiB after decompression (b"" for a folder); `read` raises
    BadInput if nothing is usable; `clock` says what the times of the format are. For folders with several ranks,
    `split` reads what is of no rank and returns a part for each rank; `read` gives the same as both. `names` are the
    patterns by which a folder is searched for files of the format; a file that is named by itself may have any name.
    """

    sniff: Callable[[AnyPath, bytes], bool]
    read: Callable[[AnyPath, Sink], None]
    clock: str
    split: Callable[[AnyPath, Sink], Sequence[RankInput]] | None = None
    names: tuple[str, ...] = ("*.json", "*.json.gz")
