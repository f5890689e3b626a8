"""Keeps the files of steps small while a job runs: once they are large, a process folds the older steps."""

from __future__ import annotations

import glob
import os
import sys

from stepscope.run_format.files import STEPS

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    import subprocess

__all__ = ["StepFiles"]

EVERY = 30
"""Seconds between two looks: the quickest steps, of 50 µs, write 50 MB meanwhile."""

LARGE = 96 << 20
"""Bytes on the disk from which steps are folded: a million steps, a quarter more than stay one by one."""

GROWN = 16 << 20
"""Bytes that a file must have grown by since it was folded last: where that gave nothing back, it is rarely tried."""


class StepFiles:
    """The files of steps of the run in `folder`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._calls = 0
        self._before: dict[str, int] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def tick(self) -> None:
        """Call it once a second."""
        self._calls += 1
        if self._calls % EVERY or (self._process is not None and self._process.poll() is None):
            return
        sizes = dict(self._sizes())
        if any(size > max(LARGE, self._before.get(path, 0) + GROWN) for path, size in sizes.items()):
            self._before = {path: size for path, size in sizes.items() if size > LARGE}
            self._start()

    def _sizes(self) -> list[tuple[str, int]]:
        found = []
        for path in glob.glob(os.path.join(glob.escape(self._folder), "rank-*", STEPS)):
            try:
                found.append((path, os.stat(path).st_blocks * 512))
            except OSError:
                continue
        return found

    def _start(self) -> None:
        import subprocess

        command = [sys.executable, "-P", "-m", "stepscope.importers.run_dir.old_steps", os.path.abspath(self._folder)]
        nowhere = subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)
        except OSError:
            return
