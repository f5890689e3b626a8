"""What the cache holds, for the person who wants to know, and how to forget it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepscope.core.errors import BadInput
from stepscope.core.paths import is_url
from stepscope.core.schema import TABLES
from stepscope.storage.cache import Cache
from stepscope.storage.content import recall, signature_of
from stepscope.storage.entry import Damaged, read_entry, remove
from stepscope.storage.space import held_in, most_bytes, remove_unfinished

__all__ = ["Kept", "forget", "forget_all", "kept", "limit"]

_OF_EVENTS = tuple(name for name, columns in TABLES.items() if any(column.name == "index" for column in columns))


@dataclass(frozen=True, slots=True)
class Kept:
    """A trace in the cache: where it lay, bytes that its entry takes, rows by table, last use (ns since the epoch)."""

    folder: Path
    trace: str
    size: int
    rows: Mapping[str, int]
    used: int

    @property
    def events(self) -> int:
        """Rows of the tables of events."""
        return sum(self.rows.get(name, 0) for name in _OF_EVENTS)


def kept(cache: Cache, paths: Sequence[str | Path] = ()) -> list[Kept]:
    """What the cache holds, the last used first; with paths or URLs, of these files only."""
    here = [Path(path) for path in paths if not is_url(str(path))]
    places = {*map(str, paths), *map(os.path.abspath, here)}
    contents = {recall(cache.contents, path, known) for path in here if (known := signature_of(path))}
    found = []
    for held in reversed(held_in(cache.entries)):
        try:
            entry = read_entry(held.folder)
        except (OSError, Damaged):
            continue
        if not paths or entry.place in places or held.folder.name.split("-")[1] in contents:
            found.append(Kept(held.folder, entry.place, held.size, entry.rows, held.used))
    return found


def limit(cache: Cache) -> int:
    """Bytes that all entries together may take."""
    if cache.most is not None:
        return cache.most
    return most_bytes(cache.entries, sum(held.size for held in held_in(cache.entries)))


def forget(cache: Cache, entries: Sequence[Kept]) -> None:
    """Remove some entries. Raises BadInput if they cannot be removed."""
    try:
        for entry in entries:
            remove(entry.folder)
    except OSError as error:
        raise _stays(cache, error) from error


def forget_all(cache: Cache) -> None:
    """Remove everything that is the cache's own. Raises BadInput if it cannot be removed."""
    try:
        for held in held_in(cache.entries):
            remove(held.folder)
        remove_unfinished(cache.entries)
        for note in cache.contents.glob("*.json"):
            note.unlink(missing_ok=True)
    except OSError as error:
        raise _stays(cache, error) from error


def _stays(cache: Cache, error: OSError) -> BadInput:
    why = (error.strerror or "it cannot be changed").lower()
    return BadInput(cache.folder, why, next_step=f"Delete it: rm -r {cache.folder}")
