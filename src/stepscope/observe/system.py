"""One row of system.jsonl: how busy the machine, the job's process tree and the GPUs are, and who waits for a core.

CPU of a process is its user and system time, and that of the children it has waited for (fields 14 to 17 of
/proc/PID/stat): loader workers live for an epoch, which may be shorter than the time between two samples. The tree is
walked anew for every sample, because children that run are not in it; what a process had used when it ended stays in
the sum. A process waits for a core while its main thread could run and does not: the second field of
/proc/PID/schedstat. Page faults that need no disk, and CPU time in the kernel, are fields 10 and 15 of its stat. Field
meanings: proc(5) and the kernel's sched-stats.rst. Where /proc or NVML does not exist, the
columns are absent, never zero.
"""

from __future__ import annotations

import os
import time
from collections import namedtuple

from stepscope.observe.children import children_of
from stepscope.observe.gpus import Gpus

TYPE_CHECKING = False  # the typing module costs milliseconds at start
if TYPE_CHECKING:
    from typing import Any

__all__ = ["SystemSampler"]

_PROC = "/proc"
_IDLE_FIELDS = (3, 4)  # idle and iowait of the first line of /proc/stat

_Status = namedtuple("_Status", "started ticks parent pages faults kernel")
"""Start time (ticks since boot: tells two processes of one number apart), CPU ticks, parent, resident pages, minor page
faults of all threads, and their CPU ticks in the kernel."""


class SystemSampler:
    """Samples the machine and the tree of process `pid`. Ratios are over the time since the previous sample.

    The constructor takes the first reading, so that the first `sample` already holds ratios.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._tick = 1.0 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01
        self._page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
        self._used: dict[int, tuple[int, int, int]] = {}  # process -> start time, ticks it has used, its parent
        self._waited: dict[int, int] = {}  # process -> ns that its main thread has waited for a core so far
        self._faulted: dict[int, tuple[int, int, int]] = {}  # process -> start time, page faults, ticks in the kernel
        self._ended = self._rss = 0
        self._devices = Gpus()
        self._time = time.monotonic()
        self._machine = _machine_ticks()
        self._job_seconds = self._tree_seconds()

    @property
    def processes(self) -> tuple[int, ...]:
        """The processes of the tree that ran when it was last sampled."""
        return tuple(self._used)

    def sample(self) -> dict[str, Any]:
        """A row: epoch_ns, cores, system_cpu_ratio (0–1, all cores), job_cpu_ratio (cores in use), job_rss_bytes, gpus.

        For each process of the job core_wait_ratio: the part of the time (0–1) that its main thread waited for one;
        page_faults (a second) and kernel_cores (in use by the kernel for it).

        What cannot be read is absent; so is what a job uses that has ended.
        """
        row: dict[str, Any] = {"epoch_ns": time.time_ns(), "cores": os.cpu_count()}
        waited, faulted = self._waited, self._faulted
        now, machine, job_seconds = time.monotonic(), _machine_ticks(), self._tree_seconds()
        if machine is not None and self._machine is not None:
            busy, total = machine[0] - self._machine[0], machine[1] - self._machine[1]
            if total > 0:
                row["system_cpu_ratio"] = min(1.0, max(0.0, busy / total))
        if job_seconds is not None and self._job_seconds is not None and self._used and now > self._time:
            row["job_cpu_ratio"] = max(0.0, job_seconds - self._job_seconds) / (now - self._time)
            row["job_rss_bytes"] = self._rss
            elapsed = (now - self._time) * 1e9
            waits = {str(pid): total - waited[pid] for pid, total in self._waited.items() if pid in waited}
            row["core_wait_ratio"] = {
                pid: round(min(1.0, wait / elapsed), 4) for pid, wait in waits.items() if wait >= 0
            }
            row["page_faults"], row["kernel_cores"] = self._faults_since(faulted, elapsed / 1e9)
        gpus = self._devices.read()
        if gpus:
            row["gpus"] = gpus
        self._time, self._machine, self._job_seconds = now, machine, job_seconds
        return row

    def _faults_since(
        self, before: dict[int, tuple[int, int, int]], elapsed: float
    ) -> tuple[dict[str, int], dict[str, float]]:
        """Page faults a second, and cores in use by the kernel, of each process that ran `elapsed` s ago too."""
        faults, kernel = {}, {}
        for pid, (started, count, ticks) in self._faulted.items():
            then = before.get(pid)
            if then is not None and then[0] == started:
                faults[str(pid)] = round((count - then[1]) / elapsed)
                kernel[str(pid)] = round((ticks - then[2]) * self._tick / elapsed, 3)
        return faults, kernel

    def _tree_seconds(self) -> float | None:
        """CPU seconds of all processes ever seen in the tree; their resident memory goes to `_rss` on the way."""
        if not os.path.isdir(os.path.join(_PROC, "self")):
            return None
        children = children_of(_PROC)
        before, self._used, self._rss = self._used, {}, 0
        self._waited, self._faulted = {}, {}
        orphans = [(pid, started) for pid, (started, _, _) in before.items()]  # its parent gone, still the job's
        waiting: list[tuple[int, int | None]] = [*orphans, (self._pid, None)]
        while waiting:
            pid, expected = waiting.pop()
            status = None if pid in self._used else _status(pid)
            if status is None or expected not in (None, status.started):
                continue
            self._used[pid] = (status.started, status.ticks, status.parent)
            self._faulted[pid] = (status.started, status.faults, status.kernel)
            wait = _core_wait(pid)
            if wait is not None:
                self._waited[pid] = wait
            self._rss += status.pages * self._page
            waiting.extend((child, None) for child in children(pid))
        self._ended += sum(ticks for pid, (_, ticks, _) in before.items() if not self._is_counted(pid, before))
        return (self._ended + sum(ticks for _, ticks, _ in self._used.values())) * self._tick

    def _is_counted(self, pid: int, before: dict[int, tuple[int, int, int]]) -> bool:
        """Does a process of `before` still run, or one that it descends from and that has waited for it?"""
        while pid in before:
            started, _, parent = before[pid]
            if pid in self._used and self._used[pid][0] == started:
                return True
            pid = parent
        return False


def _machine_ticks() -> tuple[int, int] | None:
    """Busy and all ticks of all cores since boot."""
    try:
        with open(os.path.join(_PROC, "stat"), encoding="ascii") as stat:
            ticks = [int(field) for field in stat.readline().split()[1:9]]  # guest time is in user time already
    except (OSError, ValueError):
        return None
    total = sum(ticks)
    return total - sum(ticks[index] for index in _IDLE_FIELDS), total


def _status(pid: int) -> _Status | None:
    """None where the process has ended, or nobody says."""
    try:
        with open(os.path.join(_PROC, str(pid), "stat"), "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()  # the name before may hold blanks and brackets
        pages = 0 if fields[0] in (b"Z", b"X") else int(fields[21])
        ticks = sum(map(int, fields[11:15]))
        return _Status(int(fields[19]), ticks, int(fields[1]), pages, int(fields[7]), int(fields[12]))
    except (OSError, ValueError, IndexError):
        return None


def _core_wait(pid: int) -> int | None:
    """How long the main thread of `pid` has waited for a core so far, in ns; None where nobody counts it."""
    try:
        with open(os.path.join(_PROC, str(pid), "schedstat"), encoding="ascii") as counts:
            return int(counts.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None
