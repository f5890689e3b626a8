"""How much room the cache takes: what lies in it, and what goes when it is too much."""

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from stepscope.storage.entry import LIST, UNFINISHED, remove

__all__ = ["LARGEST", "SHARE_OF_DISK", "Held", "held_in", "make_room", "most_bytes", "remove_unfinished"]

LARGEST = 20 * 10**9
"""Bytes of the whole cache: an entry takes about 4 % of its trace, so the traces of 500 GB."""

SHARE_OF_DISK = 0.1
"""Of what the disk has free: a cache may be a nuisance long before the disk is full."""

_SWEEP_EVERY = 60  # s: a job of a thousand ranks writes a thousand entries; looking at all of them each time adds up
_ABANDONED = 3600  # s: writing takes seconds, so this one was killed
_SWEPT = "swept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An entry of the cache: its folder, its size in bytes and when it was last used (ns since the epoch)."""

    folder: Path
    size: int
    used: int


def held_in(folder: Path) -> list[Held]:
    """All entries in a folder, least recently used first."""
    found = []
    for entry in _folders(folder):
        if entry.name.startswith(UNFINISHED):
            continue
        try:
            used = (entry / LIST).stat().st_mtime_ns
            size = sum(file.stat().st_size for file in entry.iterdir())
        except OSError:
            continue  # no entry, or one that another process is taking away
        found.append(Held(folder=entry, size=size, used=used))
    return sorted(found, key=lambda entry: (entry.used, entry.folder.name))


def most_bytes(folder: Path, taken: int) -> int:
    """The limit for a cache in `folder`, which may not be there yet, that takes so many bytes already."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    return min(LARGEST, int(SHARE_OF_DISK * (shutil.disk_usage(there).free + taken)))


def make_room(folder: Path, *, most: int | None = None) -> None:
    """Remove the least recently used entries beyond `most` bytes, and what killed processes left; once a minute."""
    stamp = folder / _SWEPT
    if most is None and _age(stamp) < _SWEEP_EVERY:
        return
    stamp.touch()
    remove_unfinished(folder, older_than=_ABANDONED)
    entries = held_in(folder)
    taken = sum(entry.size for entry in entries)
    limit = most_bytes(folder, taken) if most is None else most
    for entry in entries:
        if taken <= limit:
            return
        remove(entry.folder)
        taken -= entry.size


def remove_unfinished(folder: Path, *, older_than: float = 0) -> None:
    """Remove the folders that writers have left, if nothing in them has changed for so many seconds."""
    for left in _folders(folder):
        if left.name.startswith(UNFINISHED) and _age(left) >= older_than:
            shutil.rmtree(left, ignore_errors=True)


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as found:
            return [Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _age(path: Path) -> float:
    """Seconds since the last change, endless if there is no such file."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return float("inf")
