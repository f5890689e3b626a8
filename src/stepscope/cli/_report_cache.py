"""Reports that were made before: `stepscope view` shows that of a trace or an ended run that did not change at once.

Of what was only reported on a terminal, as at the end of `stepscope run`, that is kept which the page shows first.
A report is found by the files as they were named, by size, time and number of each, and by everything that makes it:
the files of stepscope, and the folders in which Python looks for plugins. A change of any makes the report anew.
"""

import gzip
import hashlib
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

import stepscope
from stepscope.core.cache_folder import cache_folder
from stepscope.core.errors import BadInput
from stepscope.run_format.files import END, RUN

__all__ = ["Later", "first_of", "forget_reports", "keep_report", "kept_report", "place_of"]

MOST_REPORTS = 100  # that are kept, and first screens: some ten megabytes
MOST_FILES = 10_000  # of a run: each is looked at before anything is shown
_PACKAGE = Path(stepscope.__file__).parent
_FRESH = 2.0  # seconds in which a file system with a coarse clock could hide another change
_ENVIRONMENT = "STEPSCOPE_"
T = TypeVar("T")


class Later(Generic[T]):
    """What is made when it is first asked for, once; other threads wait meanwhile."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._lock = make, Lock()
        self._made: list[T] = []

    def __call__(self) -> T:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
        return self._made[0]


def place_of(paths: Sequence[str], *, just_ended: bool = False) -> Path | None:
    """The file that a report is kept in; None: of places elsewhere, of a run that has not ended, of what is written.

    `just_ended`: whoever asks has written the run, and knows that nothing of it changes any more.
    """
    folder = cache_folder()
    try:
        files = [{"": os.stat(path)} if os.path.isfile(path) else _ended_run(path) for path in paths]
        if folder is None or not files or not all(files):
            return None
        if not just_ended and any(time.time() - file.st_mtime < _FRESH for named in files for file in named.values()):
            return None
        marks = [{name: _mark(file) for name, file in named.items()} for named in files]
        known = [[path, os.path.abspath(path)] for path in paths], marks, _makers()
    except OSError:  # a file went meanwhile
        return None
    name = hashlib.sha256(json.dumps(known).encode()).hexdigest()[:32]
    return folder / "reports" / f"{name}.json.gz"


def first_of(place: Path | None) -> Path | None:
    """Where what the page shows first is kept, of the same run or trace."""
    return None if place is None else place.with_name(f"first-{place.name}")


def kept_report(place: Path | None) -> Mapping[str, object] | None:
    """The report that is kept there."""
    if place is None:
        return None
    try:
        found: Mapping[str, object] = json.loads(gzip.decompress(place.read_bytes()))
        os.utime(place)
    except (OSError, ValueError, EOFError, zlib.error):
        return None
    return found


def keep_report(place: Path | None, text: str) -> None:
    """Keep a report as JSON; those that nobody asked for the longest go. A folder that cannot be written keeps none."""
    if place is None:
        return
    unfinished = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds lines of the user's code
        unfinished.write_bytes(gzip.compress(text.encode("utf-8", "surrogatepass"), compresslevel=1))
        unfinished.replace(place)
        kept = sorted(place.parent.glob("*.json.gz*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in kept[MOST_REPORTS:]:
            old.unlink(missing_ok=True)
    except (OSError, ValueError):
        with suppress(OSError):
            unfinished.unlink()


def forget_reports(folder: Path) -> None:
    """Remove all that are kept in the cache folder. Raises BadInput where one stays."""
    for path in folder.glob("reports/*"):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(path, f"cannot be removed: {error.strerror}", next_step="Remove it yourself.") from error


def _ended_run(folder: str) -> dict[str, os.stat_result]:
    """The files of a run folder, by name; none where it is another folder, its job has not ended, or there are many."""
    if not all(os.path.isfile(os.path.join(folder, name)) for name in (RUN, END)):
        return {}
    found: dict[str, os.stat_result] = {}
    for inside, folders, names in os.walk(folder):
        folders.sort()
        found |= {os.path.relpath(path, folder): os.stat(path) for path in (os.path.join(inside, n) for n in names)}
        if len(found) > MOST_FILES:
            return {}
    return found


def _mark(file: os.stat_result) -> list[int]:
    return [file.st_size, file.st_mtime_ns, file.st_ctime_ns, file.st_ino]


def _makers() -> list[object]:
    """What decides what a report says, besides the files that it is of.

    The folder of the command itself holds no plugins; a report that was made with `python -m stepscope` lacks it.
    """
    sources = [_mark(os.stat(Path(folder, name))) for folder, name in _sources()]
    own = os.path.dirname(os.path.realpath(sys.argv[0]))
    folders = [_mark(os.stat(folder)) for folder in sys.path if os.path.isdir(folder) and folder != own]
    settings = sorted((name, value) for name, value in os.environ.items() if name.startswith(_ENVIRONMENT))
    return [sources, folders, settings, sys.version]


def _sources() -> list[tuple[str, str]]:
    """The files of stepscope, but for the caches of Python."""
    found = []
    for folder, folders, names in os.walk(_PACKAGE):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        found += [(folder, name) for name in sorted(names)]
    return found
