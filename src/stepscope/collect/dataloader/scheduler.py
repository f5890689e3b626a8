"""What the system's scheduler tells: when a process began, how many threads it has, how long one has waited for a core.

Linux only: elsewhere nothing is told.
"""

from __future__ import annotations

import os
import time

__all__ = ["core_wait", "process_began", "process_threads"]

_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)
_STARTED = 19  # field of /proc/PID/stat after the name, which ends with the last bracket: ticks since boot


def core_wait() -> int:
    """Time in ns that the calling thread could run but had no core, from the second field of its schedstat; -1 where
    the system does not tell. No descriptor stays open: the job may close it, and get its number for a file of its own.
    """
    try:
        descriptor = os.open("/proc/thread-self/schedstat", _READ)
        try:
            return int(os.read(descriptor, 64).split()[1])
        finally:
            os.close(descriptor)
    except (OSError, ValueError, IndexError):
        return -1


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
