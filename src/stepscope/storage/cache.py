"""The cache: a trace is parsed once, and opening it again reads only the columns that are asked for.

An entry holds all tables of one trace file: events, processes, devices, meta data, what was skipped. It is found by the
content of the trace (`storage.content`) and by everything that decides what is made of it: the version of stepscope,
the core tables' columns, and the files of the importers themselves, so a changed importer never meets an entry of the
one before. Where the rank is not in the trace it may be in the name of the file, so there the name counts too.

A cache that cannot be used is said once and costs nothing but time.
"""

import functools
import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path
from threading import Event

import polars as pl
import xxhash

from stepscope import __version__, importers
from stepscope.core import background, importing
from stepscope.core.cache_folder import VARIABLE, cache_folder
from stepscope.core.errors import BadInput
from stepscope.core.importing import Progress, Sink
from stepscope.core.lazy_tables import LazyTables
from stepscope.core.paths import AnyPath
from stepscope.core.schema import TABLES
from stepscope.storage.content import Signature, Version, content_of, mark_of, recall, remember
from stepscope.storage.entry import LIST, Damaged, Entry, Interrupted, read_entry, remove, write_entry
from stepscope.storage.space import make_room

__all__ = ["VARIABLE", "Cache", "fill", "say_if_unusable", "tables_of", "user_cache"]

SMALLEST = 8 << 20
"""Bytes of unpacked trace below which none is kept: parsing takes tens of ms then, as long as reading an entry."""

PACKED = 16
"""How often gzip makes traces smaller, about: 12 to 25 times in the files that were looked at."""

Tables = Mapping[str, pl.DataFrame]
Mark = Signature | Version
_NO_HOME = "there is no home folder"
_LOG = logging.getLogger("stepscope")
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache of stepscope; it may be deleted.\n"


def tables_of(path: AnyPath, *, use_cache: bool, wait: bool = True, progress: Progress | None = None) -> Tables:
    """The core tables of one trace file, from the cache if it holds them, else parsed and then kept.

    `wait` false: a thread writes the entry (`core.background`). Raises BadInput for a file that cannot be read.
    """
    if not use_cache:
        return _parsed(path, progress)[0]
    cache = user_cache()
    if cache is not None:
        return cache.tables(path, wait=wait, progress=progress)
    mark = mark_of(path)
    if mark is not None and mark.size >= SMALLEST:
        _say_once(_NO_HOME)
    return _parsed(path, progress)[0]


def fill(path: AnyPath, sink: Sink, *, use_cache: bool, wait: bool = True) -> None:
    """As `tables_of`, whole, into a sink: what an importer's `read` does. Raises BadInput."""
    tables = tables_of(path, use_cache=use_cache, wait=wait, progress=sink.progress)
    for name in TABLES:
        table = tables[name]
        if name == "skipped":
            for source, reason, count in table.iter_rows():
                sink.skip(source, reason, count)
        elif table.height:
            sink.parts.setdefault(name, []).append(table)


def user_cache() -> "Cache | None":
    """The cache of this user, None if the system has no place for one."""
    folder = cache_folder()
    return None if folder is None else Cache(folder=folder, smallest=SMALLEST)


def say_if_unusable() -> None:
    """Say it here if the cache cannot be used: who starts workers calls this, because they keep silent."""
    cache = user_cache()
    if cache is None:
        _say_once(_NO_HOME)
    elif not cache.is_writable():
        _say_once(f"{cache.folder} cannot be written")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A folder of entries. Traces that are smaller than `smallest` bytes are not kept; `most` limits all entries."""

    folder: Path
    smallest: int
    most: int | None = None

    @property
    def entries(self) -> Path:
        """The folder of the entries."""
        return self.folder / "traces"

    @property
    def contents(self) -> Path:
        """The folder with the contents of known paths."""
        return self.folder / "contents"

    def is_writable(self) -> bool:
        """Whether the folder is there and can be written, or could be made."""
        there = next(place for place in (self.folder, *self.folder.parents) if place.exists())
        return there.is_dir() and os.access(there, os.W_OK | os.X_OK)

    def tables(self, path: AnyPath, *, wait: bool = True, progress: Progress | None = None) -> Tables:
        """See `tables_of`."""
        mark = mark_of(path)
        if mark is None or self._is_small(path, mark):
            return _parsed(path, progress)[0]
        content = self._content(path, mark)
        found = self._find(path, mark, content) if content else None
        if found is not None:
            return found
        tables, built_in = _parsed(path, progress)
        if built_in:
            keep = functools.partial(self._keep, path, mark, content, tables)
            keep(Event()) if wait else background.start(keep)
        return tables

    def _is_small(self, path: AnyPath, mark: Mark) -> bool:
        if mark.size >= self.smallest:
            return False
        if mark.size * PACKED < self.smallest:
            return True
        if not isinstance(path, Path):
            return False  # fetching it takes longer than reading an entry
        try:
            with path.open("rb") as file:
                return file.read(2) != b"\x1f\x8b"
        except OSError:
            return True  # its importer says why

    def _content(self, path: AnyPath, mark: Mark) -> str | None:
        """The content if it is known, or if an entry of a file of this size makes it worth to look."""
        if isinstance(mark, Version) or not isinstance(path, Path):
            return mark.content if isinstance(mark, Version) else None
        content = recall(self.contents, path, mark)
        if content is None and any(self.entries.glob(f"{mark.size:x}-*")):
            try:
                content = content_of(path)
                remember(self.contents, path, mark, content)
            except OSError:
                return content  # what is wrong with the trace, its importer says; with the cache, who writes to it
        return content

    def _find(self, path: AnyPath, mark: Mark, content: str) -> LazyTables | None:
        for name in ("", _in_name(path.name)):
            folder = self.entries / _key(mark.size, content, name)
            try:
                entry = read_entry(folder)
            except OSError:
                continue
            except Damaged:
                _drop(folder)
                continue
            _touch(folder)
            return LazyTables(entry.rows, _Reader(entry, path, mark))
        return None

    def _keep(self, path: AnyPath, mark: Mark, content: str | None, tables: Tables, stop: Event) -> None:
        try:
            if content is None and isinstance(path, Path):
                content = content_of(path)
            if content is None or mark_of(path) != mark:
                return  # it is still being written
            name = "" if (tables["processes"]["rank_source"] == "trace").all() else _in_name(path.name)
            _make(self.folder, self.entries)
            write_entry(self.entries / _key(mark.size, content, name), path, tables, stop)
            if isinstance(path, Path) and isinstance(mark, Signature):
                remember(self.contents, path, mark, content)
            make_room(self.entries, most=self.most)
        except (Interrupted, BadInput):
            return  # BadInput: whether the file is as before, its provider does not say any more
        except OSError as error:
            _say_once(f"{self.folder} cannot be written ({error.strerror or error})")


@dataclass(slots=True, eq=False)
class _Reader:
    """Reads columns of an entry; should it turn out to be damaged, drops it and parses the trace again."""

    entry: Entry
    path: AnyPath
    mark: Mark
    parsed: Tables | None = None

    def read(self, table: str, columns: Sequence[str], where: pl.Expr | None = None) -> pl.DataFrame:
        """See `core.lazy_tables.RowSource`."""
        if self.parsed is None:
            try:
                return self._renamed(self.entry.read(table, columns, where))
            except Damaged:
                _drop(self.entry.folder)
                self.parsed = self._again()
        rows = self.parsed[table]
        return (rows if where is None else rows.filter(where)).select(columns)

    def _again(self) -> Tables:
        tables, _ = _parsed(self.path, None)
        if mark_of(self.path) != self.mark:
            raise BadInput(self.path, "the file changed while it was read", next_step="Run the same command again.")
        return tables

    def _renamed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """With the path that was asked for where the path of the parsed file stands."""
        if "source" not in frame.columns or self.entry.trace == str(self.path):
            return frame
        source = pl.col("source")
        here = pl.when(source == self.entry.trace).then(pl.lit(str(self.path))).otherwise(source)
        return frame.with_columns(source=here)


def _parsed(path: AnyPath, progress: Progress | None) -> tuple[Tables, bool]:
    """The tables of a trace, and whether the importer is one of stepscope's own, whose version is known here."""
    importer = importers.importer_of(path)
    sink = Sink(progress=progress)
    importer.read(path, sink)
    if "processes" not in sink.parts:
        raise TypeError(f"{importer.read.__module__}: read() must add a row to the table `processes`, with the rank")
    return sink.run(str(path)).tables, importer.read.__module__.startswith("stepscope.")


def _key(size: int, content: str, name: str) -> str:
    """The name of an entry's folder."""
    named = f"-{hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()}" if name else ""
    return f"{size:x}-{content}-{_parser()}{named}"


def _in_name(name: str) -> str:
    """What the name of a file may tell of a trace that does not say its rank itself: nothing without a number."""
    return name if any(letter.isdigit() for letter in name) else "no number"


@functools.cache
def _parser() -> str:
    """What makes tables of traces: the version, the columns, and the files that do it."""
    digest = xxhash.xxh3_64(f"{__version__} {TABLES}".encode())
    package = Path(importers.__file__).parents[1]
    for folder in ("importers", "native", "run_format"):
        for file in sorted((package / folder).rglob("*")):
            if file.suffix in (".py", ".so", ".pyd"):
                digest.update(file.read_bytes())
    digest.update(Path(importing.__file__).read_bytes())
    return digest.hexdigest()


def _make(folder: Path, entries: Path) -> None:
    if not entries.is_dir():
        entries.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "CACHEDIR.TAG").write_text(_TAG, encoding="ascii")  # backups leave such folders out


def _drop(folder: Path) -> None:
    try:
        remove(folder)
    except OSError as error:
        _say_once(f"{folder} is damaged and cannot be removed ({error.strerror or error})")


def _touch(folder: Path) -> None:
    try:
        os.utime(folder / LIST)
    except OSError:
        return  # not ours to write: then it is not ours to remove either


@functools.cache
def _say_once(why: str) -> None:
    if parent_process() is not None:
        return  # a worker: its many brothers would say the same
    _LOG.warning("stepscope: without the cache: %s; %s=FOLDER names another, --no-cache needs none", why, VARIABLE)
