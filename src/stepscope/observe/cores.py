"""How many processor cores this process may really use: affinity and the quotas of its control groups."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Cores", "effective_cores"]

_V1_CONTROLLERS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """Cores of the machine, cores by affinity (counts), by cgroup quota (None where there is no limit), and the smaller
    of the last two."""

    machine: int
    affinity: int
    cgroup_quota: float | None
    effective: float


def effective_cores(root: Path = Path("/")) -> Cores:
    """min(affinity, tightest CPU quota on the way up from this process's control group, v2 and v1).

    `root` is where /proc and /sys are looked for. A quota is quota / period of cpu.max or cpu.cfs_quota_us
    (kernel documentation, cgroup-v2.rst, "CPU Interface Files").
    """
    machine = os.cpu_count() or 1
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else machine
    quotas = [*_quotas_v2(root), *_quotas_v1(root)]
    quota = min(quotas, default=None)
    effective = min(affinity, quota or affinity)
    return Cores(machine=machine, affinity=affinity, cgroup_quota=quota, effective=effective)


def _quotas_v2(root: Path) -> list[float]:
    quotas = []
    mount = root / "sys/fs/cgroup"
    for folder in _upwards(mount, _own_group(root, "")):
        words = _words(folder / "cpu.max")
        if len(words) == 2 and words[0] != "max":
            quotas.append(int(words[0]) / int(words[1]))
    return quotas


def _quotas_v1(root: Path) -> list[float]:
    quotas = []
    for controller in _V1_CONTROLLERS:
        mount = root / "sys/fs/cgroup" / controller
        for folder in _upwards(mount, _own_group(root, controller)):
            quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
            if len(quota) == 1 and len(period) == 1 and int(quota[0]) > 0:
                quotas.append(int(quota[0]) / int(period[0]))
    return quotas


def _own_group(root: Path, controller: str) -> str:
    """This process's group in the hierarchy of `controller` (the empty one is v2's); "/" when it is not told."""
    for line in _words(root / "proc/self/cgroup", separator="\n"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == controller:
            return path
    return "/"


def _upwards(mount: Path, group: str) -> list[Path]:
    """The group's folder and all above it: each may hold a limit. In a container the path may lead nowhere."""
    inside = Path(group.lstrip("/"))
    return [mount / inside, *(mount / parent for parent in inside.parents)]


def _words(path: Path, separator: str | None = None) -> list[str]:
    try:
        return path.read_text().split(separator)
    except OSError:
        return []
