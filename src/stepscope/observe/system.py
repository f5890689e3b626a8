"""One row of system.jsonl: how busy the machine, the job's process tree and the GPUs are.

CPU of a process is its user and system time (fields 14 and 15 of /proc/PID/stat). The tree is walked anew for every
sample, because `cutime` covers only children that were waited for; what a process had used when it ended stays in the
sum. Field meanings: proc(5). Where /proc or NVML does not exist, the columns are absent, never zero.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # the typing module costs milliseconds at start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["SystemSampler"]

_PROC = "/proc"
_IDLE_FIELDS = (3, 4)  # idle and iowait of the first line of /proc/stat


class SystemSampler:
    """Samples the machine and the tree of process `pid`. Ratios are over the time since the previous sample.

    The constructor takes the first reading, so that the first `sample` already holds ratios.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._tick = 1.0 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01
        self._page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
        self._used: dict[int, tuple[int, int]] = {}  # process -> its start time, the ticks it has used
        self._ended = self._rss = 0
        self._devices = _Devices()
        self._time = time.monotonic()
        self._machine = _machine_ticks()
        self._job_seconds = self._tree_seconds()

    def sample(self) -> dict[str, Any]:
        """A row: epoch_ns, cores, system_cpu_ratio (0–1, all cores), job_cpu_ratio (cores in use), job_rss_bytes, gpus.

        What cannot be read is absent; so is what a job uses that has ended.
        """
        row: dict[str, Any] = {"epoch_ns": time.time_ns(), "cores": os.cpu_count()}
        now, machine, job_seconds = time.monotonic(), _machine_ticks(), self._tree_seconds()
        if machine is not None and self._machine is not None:
            busy, total = machine[0] - self._machine[0], machine[1] - self._machine[1]
            if total > 0:
                row["system_cpu_ratio"] = min(1.0, max(0.0, busy / total))
        if job_seconds is not None and self._job_seconds is not None and self._used and now > self._time:
            row["job_cpu_ratio"] = max(0.0, job_seconds - self._job_seconds) / (now - self._time)
            row["job_rss_bytes"] = self._rss
        gpus = self._devices.read()
        if gpus:
            row["gpus"] = gpus
        self._time, self._machine, self._job_seconds = now, machine, job_seconds
        return row

    def _tree_seconds(self) -> float | None:
        """CPU seconds of all processes ever seen in the tree; their resident memory goes to `_rss` on the way."""
        if not os.path.isdir(os.path.join(_PROC, "self")):
            return None
        children = _children_of()
        before, self._used, self._rss = self._used, {}, 0
        orphans = [(pid, started) for pid, (started, _) in before.items()]  # its parent gone, it is still the job's
        waiting: list[tuple[int, int | None]] = [*orphans, (self._pid, None)]
        while waiting:
            pid, expected = waiting.pop()
            status = None if pid in self._used else _status(pid)
            if status is None or expected not in (None, status[0]):
                continue
            started, ticks, pages = status
            self._used[pid] = (started, ticks)
            self._rss += pages * self._page
            waiting.extend((child, None) for child in children(pid))
        for pid, (started, ticks) in before.items():
            if self._used.get(pid, (None, 0))[0] != started:
                self._ended += ticks
        return (self._ended + sum(ticks for _, ticks in self._used.values())) * self._tick


class _Devices:
    """The NVIDIA GPUs through pynvml, if it is installed and works."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] = []
        try:
            import pynvml

            pynvml.nvmlInit()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            self._nvml = pynvml
        except Exception:  # noqa: BLE001  # a driver library of any version: whatever it raises, there is no NVML
            self._handles = []

    def read(self) -> list[dict[str, Any]]:
        return [self._device(index, handle) for index, handle in enumerate(self._handles)]

    def _device(self, index: int, handle: Any) -> dict[str, Any]:
        nvml = self._nvml
        row: dict[str, Any] = {"index": index}
        for columns in (
            lambda: {"name": _text(nvml.nvmlDeviceGetName(handle))},
            lambda: {"utilisation_ratio": nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100},
            lambda: _memory(nvml.nvmlDeviceGetMemoryInfo(handle)),
            lambda: {"power_w": nvml.nvmlDeviceGetPowerUsage(handle) / 1000},
        ):
            try:
                row.update(columns())
            except nvml.NVMLError:
                continue  # not every card can tell everything
        return row


def _memory(memory: Any) -> dict[str, int]:
    return {"memory_used_bytes": int(memory.used), "memory_total_bytes": int(memory.total)}


def _text(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)


def _machine_ticks() -> tuple[int, int] | None:
    """Busy and all ticks of all cores since boot."""
    try:
        with open(os.path.join(_PROC, "stat"), encoding="ascii") as stat:
            ticks = [int(field) for field in stat.readline().split()[1:9]]  # guest time is in user time already
    except (OSError, ValueError):
        return None
    total = sum(ticks)
    return total - sum(ticks[index] for index in _IDLE_FIELDS), total


def _status(pid: int) -> tuple[int, int, int] | None:
    """Start time (ticks since boot: tells two processes of one number apart), CPU ticks, resident pages."""
    try:
        with open(os.path.join(_PROC, str(pid), "stat"), "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()  # the name before may hold blanks and brackets
        if fields[0] in (b"Z", b"X"):
            return int(fields[19]), int(fields[11]) + int(fields[12]), 0
        return int(fields[19]), int(fields[11]) + int(fields[12]), int(fields[21])
    except (OSError, ValueError, IndexError):
        return None


def _children_of() -> Callable[[int], list[int]]:
    """How to find the children of a process here: the kernel's own list, else the parents that all processes name."""
    if os.path.exists(os.path.join(_PROC, "self", "task", str(os.getpid()), "children")):
        return _listed_children
    by_parent: dict[int, list[int]] = {}
    for name in os.listdir(_PROC):
        if name.isdigit():
            try:
                with open(os.path.join(_PROC, name, "stat"), "rb") as stat:
                    parent = int(stat.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            by_parent.setdefault(parent, []).append(int(name))
    return lambda pid: by_parent.get(pid, [])


def _listed_children(pid: int) -> list[int]:
    """The processes that any thread of `pid` started and that still run under it."""
    tasks = os.path.join(_PROC, str(pid), "task")
    children: list[int] = []
    try:
        for task in os.listdir(tasks):
            with open(os.path.join(tasks, task, "children"), encoding="ascii") as listed:
                children.extend(int(child) for child in listed.read().split())
    except (OSError, ValueError):
        return children  # it is just ending
    return children
