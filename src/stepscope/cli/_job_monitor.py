"""What happens once a second while a job runs: its load is written down, and its pace is told."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from stepscope.collect.launch import INJECT
from stepscope.collect.recorder import append_line
from stepscope.collect.secrets import redacted
from stepscope.run_format.files import NOTES, RUN, RUN_DIR, SYSTEM

__all__ = ["JobMonitor", "watch"]

_EVERY_S = 1.0
_COMMAND_LENGTH = 100


def watch(folder: str, *, show: bool = False) -> Callable[[int], bool]:
    """Watches a trial recorded in `folder`: call it often with the process id of the job; true once a second."""
    return JobMonitor(folder, show=show).tick


class JobMonitor:
    """Watches the job recorded in `folder`; `show` tells its pace on stderr, `watchdog` is for how many seconds it may
    make no step. Imports wait until the job has started."""

    def __init__(self, folder: str, *, show: bool, watchdog: float | None = None) -> None:
        self._folder, self._show, self._seconds = folder, show, watchdog
        self._next = 0.0
        self._told: set[str] = set()

    def tick(self, pid: int) -> bool:
        """Call it often; true once a second. The load is that of process `pid` and of those that it has started."""
        if not self._next:
            self._begin(pid)
        if time.monotonic() < self._next:
            return False
        self._next = max(self._next + _EVERY_S, time.monotonic())
        if os.path.exists(os.path.join(self._folder, RUN)):
            self._log.tick()
            self._steps.tick()
            self._tell_unprobed()
            if self._watchdog is not None:
                self._watchdog.tick()
        if self._show:
            self._reporter.tick()
        return True

    def _tell_unprobed(self) -> None:
        """Write down which Pythons with torch run without the probe, and what to change."""
        for found in self._unprobed.look(self._sampler.processes):
            if found.why in self._told:
                continue  # ranks of one script
            self._told.add(found.why)
            program, *words = redacted(found.command)
            what = f"steps of {' '.join([os.path.basename(program), *words])[:_COMMAND_LENGTH]}"
            why = f"torch runs in it without stepscope's probe: {found.why}"
            row = {"what": what, "why": why, "next": found.advice, "epoch_ns": time.time_ns()}
            append_line(os.path.join(self._folder, NOTES), row)

    def _begin(self, pid: int) -> None:
        from stepscope.cli._progress import Reporter
        from stepscope.cli._step_files import StepFiles
        from stepscope.cli._system_log import SystemLog
        from stepscope.cli._watchdog import Watchdog
        from stepscope.observe.system import SystemSampler
        from stepscope.observe.unprobed import UnprobedWatch

        self._sampler = SystemSampler(pid)
        self._log = SystemLog(os.path.join(self._folder, SYSTEM), self._sampler)
        self._steps = StepFiles(self._folder)
        self._reporter = Reporter(self._folder, clear=sys.stderr.isatty())
        self._unprobed = UnprobedWatch(INJECT, RUN_DIR)
        self._watchdog = None if self._seconds is None else Watchdog(self._folder, self._seconds)
        self._next = time.monotonic()
