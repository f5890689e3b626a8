"""What the system's scheduler tells: when a process began, how many threads it has, how long one has waited for a core.

Linux only: elsewhere nothing is told.
"""

from __future__ import annotations

import os
import time
from _thread import get_ident

__all__ = ["CoreWaits", "process_began", "process_threads"]

_STARTED = 19  # field of /proc/PID/stat after the name, which ends with the last bracket: ticks since boot


class CoreWaits:
    """Time that the calling thread could run but had no core, from the second field of its schedstat."""

    __slots__ = ("_descriptor", "_thread")

    def __init__(self) -> None:
        self._thread, self._descriptor = 0, -1

    def now(self) -> int:
        """Time so far in ns, -1 where the system does not tell."""
        if get_ident() != self._thread:
            self._open()
        if self._descriptor < 0:
            return -1
        return int(os.pread(self._descriptor, 64, 0).split()[1])

    def close(self) -> None:
        """The next call of `now` is of another thread or process."""
        self._thread = 0
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _open(self) -> None:
        self.close()
        self._thread = get_ident()
        try:
            self._descriptor = os.open("/proc/thread-self/schedstat", os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError:
            return


def process_began() -> int:
    """When this process began, on the monotonic clock, to a hundredth of a second; 0 where the system does not tell."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[_STARTED])
        lived = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        return time.monotonic_ns() - lived
    except (OSError, AttributeError, ValueError, IndexError):
        return 0


def process_threads() -> int:
    """Threads of this process, 0 where the system does not tell."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0
