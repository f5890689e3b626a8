"""Source lines around the places of the user's code that a recording names: a report shows them anywhere, later.

A file that was changed after the process began has other lines than those that run: none of its lines are kept.
"""

from __future__ import annotations

import os
import time

from .origins import USER, Origins
from .secrets import redacted_code

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["AROUND", "LONGEST", "MOST_PLACES", "Sources", "fit", "source_line", "source_lines"]

AROUND = 2
"""Lines kept before and after a place: enough to see what it is part of."""

LONGEST = 200
"""Characters kept of a line: enough to recognize it."""

MOST_PLACES = 1000
"""Places of one process, 400 KB: a report names some dozens, a program with more is generating code."""

SETTINGS = (
    "detect_anomaly", "set_num_threads", "OMP_NUM_THREADS", "deterministic", "matmul_precision", "cudnn.benchmark",
    "allow_tf32", "autocast", "float64", ".double(", "set_default_dtype", "memory_format", "torch.compile",
    "profiler.profile(", "Embedding(", "checkpoint(", "DataParallel(", "DDP(", "find_unused", "no_sync", "Thread(",
    "all_reduce(", "all_gather", "barrier(", "append(", "_hook(", "+= ", "total = total", "set_to_none",
    "sched_setaffinity", "cpu_affinity(", "fully_shard(", "FSDP(",
)  # fmt: skip
"""Words of lines that rules name as the place to change."""

LONGEST_FILE = 5_000  # lines, in which the search takes 3 ms, once: of a longer file the first are searched
MOST_SETTINGS = 50  # lines of one file

_BEGAN = time.time()  # this module is imported with torch; a forked worker has it from its parent, whose code it runs


class Sources:
    """Tells the lines around each place once, as `{"file", "first", "lines"}`. `shown`: how `origins` writes a file."""

    def __init__(self, tell: Callable[[dict[str, Any]], None], origins: Origins) -> None:
        self._tell, self._origins = tell, origins
        self._kept: set[tuple[str, int]] = set()
        self._searched: set[str] = set()

    def keep(self, file: str, line: int) -> None:
        """Keep the lines around a place, once. Raises OSError when they cannot be written."""
        if (file, line) in self._kept or len(self._kept) >= MOST_PLACES:
            return
        self._kept.add((file, line))
        self._keep_settings(file)
        first = max(1, line - AROUND)
        lines = source_lines(file, first, line + AROUND)
        if len(lines) > line - first:
            self._tell({"file": self._origins.shown(file), "first": first, "lines": [fit(text) for text in lines]})

    def _keep_settings(self, file: str) -> None:
        """Keep the lines of a file that set how torch computes, once: no sample names them, as they take no time."""
        if file in self._searched:
            return
        self._searched.add(file)
        for line in _setting_lines("".join(source_lines(file, 1, LONGEST_FILE)))[:MOST_SETTINGS]:
            self.keep(file, line)

    def keep_users(self, file: str | None, line: int | None) -> None:
        """`keep` of a place that may be unknown, or another's code."""
        if file and line and self._origins.of(file) == USER:
            self.keep(file, line)


def _setting_lines(text: str) -> list[int]:
    """The numbers of lines with one of SETTINGS. One search a word: half the time of asking each line."""
    found = set()
    for word in SETTINGS:
        at = text.find(word)
        while at >= 0:
            found.add(text.count("\n", 0, at) + 1)
            at = text.find(word, at + 1)
    return sorted(found)


def source_line(file: str, line: int) -> str:
    """A source line without its indentation; empty where it is not known."""
    return "".join(fit(text).strip() for text in source_lines(file, line, line))


def source_lines(file: str, first: int, last: int) -> list[str]:
    """The lines `first` to `last` as far as the file has them; none of a file that was changed meanwhile."""
    import linecache  # not at the top: most processes of a job describe no code

    if _changed(file):
        return []
    return linecache.getlines(file)[first - 1 : last]


def fit(text: str) -> str:
    """A line or an expression as it is written down: without secrets, and not longer than LONGEST."""
    return redacted_code(text[: 2 * LONGEST].rstrip())[:LONGEST]  # a line may hold megabytes of data


def _changed(file: str) -> bool:
    try:
        return os.stat(file).st_mtime > _BEGAN
    except OSError:
        return False  # typed in, or in an archive: its lines are in memory
