"""One trace in the cache: a folder of Parquet files (zstd), one for each table, and a list of them in entry.json.

A table of many rows is several files, so that writing can stop between them. An entry is made in a folder beside its
place and renamed when it is whole, so nobody ever sees half of one. Every file is checked against the size and the hash
in the list before any of it is used: a disk that lies costs a parse, not a wrong figure.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import polars as pl

from stepscope.core.paths import AnyPath
from stepscope.core.schema import TABLES, polars_schema
from stepscope.storage.content import content_of

__all__ = ["LIST", "UNFINISHED", "Damaged", "Entry", "Interrupted", "read_entry", "remove", "write_entry"]

LIST = "entry.json"
"""The file of an entry that names the others; the time of its last change is when the entry was last used."""

UNFINISHED = "unfinished-"
"""What the name of a folder begins with while an entry is written or removed."""

_ROWS = 500_000  # of one file: about a quarter of a second to write
_LEVEL = 1  # zstd: higher levels gain a few per cent and take several times as long


class Damaged(Exception):
    """An entry that cannot be used as it is."""


class Interrupted(Exception):
    """Writing was told to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry that can be read. `trace` is the path that was parsed, `place` its absolute path or URL.

    `files` are names, sizes in bytes and hashes of the files of each table.
    """

    folder: Path
    trace: str
    place: str
    rows: Mapping[str, int]
    files: Mapping[str, Sequence[tuple[str, int, str]]]
    _checked: set[str] = field(default_factory=set, repr=False, compare=False)

    def read(self, table: str, columns: Sequence[str], where: pl.Expr | None = None) -> pl.DataFrame:
        """Some columns of a table, of all rows or of those that `where` is true for, in order. Raises Damaged."""
        paths = [self._check(*file) for file in self.files.get(table, ())]
        schema = polars_schema(TABLES[table])
        try:
            found = pl.scan_parquet(paths, use_statistics=False, glob=False, cache=False)
            frame = (found if where is None else found.filter(where)).select(columns).collect()
        except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise Damaged(f"{self.folder}: {error}") from error
        if any(frame.schema[name] != schema[name] for name in columns):
            raise Damaged(f"{self.folder}: a column of {table} has another type")
        if where is None and frame.height != self.rows[table]:
            raise Damaged(f"{self.folder}: {table} has {frame.height} rows, not {self.rows[table]}")
        return frame

    def _check(self, name: str, size: int, content: str) -> Path:
        path = self.folder / name
        if name not in self._checked:
            try:
                if path.stat().st_size != size or content_of(path) != content:
                    raise Damaged(f"{path} is not as it was written")
            except OSError as error:
                raise Damaged(f"{path}: {error.strerror}") from error
            self._checked.add(name)
        return path


def write_entry(folder: Path, trace: AnyPath, tables: Mapping[str, pl.DataFrame], stop: Event) -> bool:
    """Write an entry; False if another process was faster, or cleared the cache. Raises OSError or Interrupted.

    Nothing is left of what could not be written.
    """
    unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder.parent))
    try:
        files = {name: _write_table(unfinished, name, table, stop) for name, table in tables.items() if table.height}
        listed = {
            "trace": str(trace),
            "place": os.path.abspath(trace) if isinstance(trace, Path) else str(trace),
            "rows": {name: tables[name].height for name in files},
            "files": files,
        }
        with (unfinished / LIST).open("w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(listed, file)
            _to_disk(file.fileno())
        if stop.is_set():
            raise Interrupted
        return _publish(unfinished, folder)
    except FileNotFoundError:
        return False
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def read_entry(folder: Path) -> Entry:
    """What an entry holds, from its list alone. Raises Damaged; FileNotFoundError if there is none."""
    try:
        listed: Any = json.loads((folder / LIST).read_bytes())
        return Entry(
            folder=folder,
            trace=str(listed["trace"]),
            place=str(listed["place"]),
            rows={str(name): int(rows) for name, rows in listed["rows"].items()},
            files={
                str(name): [(str(file), int(size), str(content)) for file, size, content in files]
                for name, files in listed["files"].items()
            },
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError) and not folder.exists():
            raise
        raise Damaged(f"{folder / LIST}: {error}") from error


def remove(folder: Path) -> None:
    """Take an entry away; who reads it at the moment finds it damaged. Raises OSError if it stays."""
    condemned = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder.parent))
    try:
        folder.rename(condemned / folder.name)
    except FileNotFoundError:  # another process was faster, or cleared what we would move it to
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(condemned, ignore_errors=True)


def _write_table(folder: Path, name: str, table: pl.DataFrame, stop: Event) -> list[tuple[str, int, str]]:
    files = []
    for number, part in enumerate(table.iter_slices(_ROWS)):
        if stop.is_set():
            raise Interrupted
        path = folder / f"{name}.{number}.parquet"
        try:
            part.write_parquet(path, compression="zstd", compression_level=_LEVEL, statistics=False)
        except pl.exceptions.PolarsError as error:
            raise OSError(None, str(error), str(path)) from error
        with path.open("rb") as file:
            _to_disk(file.fileno())
        files.append((path.name, path.stat().st_size, content_of(path)))
    return files


def _to_disk(file: int) -> None:
    """Before the rename: after a loss of power the name must not be there without the bytes."""
    os.fsync(file)


def _publish(unfinished: Path, folder: Path) -> bool:
    try:
        unfinished.rename(folder)
    except OSError:
        if not (folder / LIST).exists():
            raise
        return False
    return True
