"""Looks after a job that makes no more steps: where its processes are then is written down, once."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from stepscope.observe.pace import read_pace

__all__ = ["STACKS", "Watchdog"]

STACKS = "stacks.txt"


class Watchdog:
    """`tick`, called about every second, writes `stacks.txt` into the folder when the last step is `seconds` old."""

    def __init__(self, folder: str, seconds: float) -> None:
        self._folder, self._seconds = folder, seconds
        self._done = False

    def tick(self) -> None:
        """Start `stepscope dump` once, beside the job. Raises OSError."""
        pace = None if self._done else read_pace(self._folder)
        if pace is None or time.monotonic_ns() - pace.ended < self._seconds * 1e9:
            return
        self._done = True
        path = os.path.join(self._folder, STACKS)
        with open(path, "wb") as file:
            subprocess.Popen(
                [sys.executable, "-m", "stepscope", "dump", self._folder], stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
        why = f"no step ended for {self._seconds:g} s after step {pace.step:,}"
        sys.stderr.write(f"stepscope: {why}; stacks of all processes go to {path}\n")
        sys.stderr.flush()
