"""What happens once a second while a job runs: its load is written down, and its pace is told."""

from __future__ import annotations

import os
import sys
import time

__all__ = ["Watching"]

_EVERY_S = 1.0


class Watching:
    """Watches the job recorded in `folder`; `show` tells its pace on stderr. Imports wait until the job has started."""

    def __init__(self, folder: str, *, show: bool) -> None:
        self._folder, self._show = folder, show
        self._next = 0.0

    def tick(self, pid: int) -> bool:
        """Call it often; true once a second. The load is that of process `pid` and of those that it has started."""
        if not self._next:
            self._begin(pid)
        if time.monotonic() < self._next:
            return False
        self._next = max(self._next + _EVERY_S, time.monotonic())
        if os.path.exists(os.path.join(self._folder, "run.json")):
            self._log.tick()
            self._steps.tick()
        if self._show:
            self._reporter.tick()
        return True

    def _begin(self, pid: int) -> None:
        from stepscope.cli._progress import Reporter
        from stepscope.cli._step_files import StepFiles
        from stepscope.cli._system_log import SystemLog
        from stepscope.observe.system import SystemSampler

        self._log = SystemLog(os.path.join(self._folder, "system.jsonl"), SystemSampler(pid))
        self._steps = StepFiles(self._folder)
        self._reporter = Reporter(self._folder, clear=sys.stderr.isatty())
        self._next = time.monotonic()
