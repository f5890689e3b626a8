"""system.jsonl, which stays small however long the job runs: the more rows it has, the more time each stands for."""

from __future__ import annotations

import json
import os

from stepscope.collect.recorder import append_line

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

    from stepscope.observe.system import SystemSampler

__all__ = ["MOST_ROWS", "SystemLog"]

MOST_ROWS = 20_000
"""Rows of the file, some 4 MB: five hours and a half, one a second; of longer jobs one every two, four … seconds."""


class SystemLog:
    """Writes what `sampler` reads into `path`. Rows are spaced evenly over the job, so that means need no weights.

    A full file is replaced by one with the mean of each two rows, and from then on rows come half as often.
    """

    def __init__(self, path: str, sampler: SystemSampler, most: int = MOST_ROWS) -> None:
        self._path, self._sampler, self._most = path, sampler, most
        self._rows, self._every, self._calls = 0, 1, 0

    def tick(self) -> None:
        """Call it once a second. Raises OSError."""
        self._calls += 1
        if self._calls % self._every:
            return
        append_line(self._path, self._sampler.sample())
        self._rows += 1
        if self._rows >= self._most:
            self._halve()

    def _halve(self) -> None:
        with open(self._path, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        means = [_mean(*rows[at : at + 2]) for at in range(0, len(rows) - 1, 2)]
        with open(self._path + ".new", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in means)
        os.replace(self._path + ".new", self._path)
        self._rows, self._every = len(means), 2 * self._every


def _mean(first: Any, second: Any, name: str = "") -> Any:
    """The row for the time of both: means of what was measured, the rest as it was last."""
    if isinstance(first, dict) and isinstance(second, dict):
        return {key: _mean(first.get(key, value), value, key) for key, value in second.items()}
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [_mean(one, other) for one, other in zip(first, second, strict=True)]
    if not (isinstance(first, (int, float)) and isinstance(second, (int, float))) or name in ("epoch_ns", "index"):
        return second
    mean = (first + second) / 2
    return round(mean) if isinstance(second, int) else mean
