"""What the machine has done so far: cores, disks, network, memory, pressure and the limits of this control group.

Two readings make the figures of `stepscope top`. Fields as in proc(5), the kernel's iostats.rst, psi.rst and
cgroup-v2.rst. What this machine does not tell is None or empty.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CoreCounters", "DiskCounters", "MachineCounters", "read_machine"]

_TICK_NS = 1_000_000_000 // (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
_SECTOR = 512  # bytes, whatever the disk's own sectors are
_NO_DISK = re.compile(r"(loop|ram|zram|sr|fd)\d+$")
_PART = re.compile(r"((sd|vd|xvd|hd)[a-z]+\d+|(nvme\d+n\d+|mmcblk\d+)p\d+)$")  # its disk counts it already
_NO_CARD = re.compile(r"(lo|docker\d*|veth.*|br-.*|virbr\d+.*)$")  # what they carry, a card or nobody carries too
_CPU_STAT = ("cpu.stat", "cpu/cpu.stat", "cpu,cpuacct/cpu.stat")  # of v2, and of v1 where either may be mounted


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreCounters:
    """Time of one core in ns: in programs, in the kernel, waiting for a disk, taken by the hypervisor, and idle."""

    core: int
    user: int
    system: int
    iowait: int
    steal: int
    idle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCounters:
    """Of one disk: requests that ended, bytes, ns that requests took in all, and ns in which there was any."""

    name: str
    reads: int
    read: int
    read_time: int
    writes: int
    written: int
    write_time: int
    busy: int
    queued: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCounters:
    """One reading. `time` is ns of the monotonic clock; `memory`, `shared` and `swap` are (used, all) in bytes.

    `stalled` is ns in which some task waited for cpu, memory or io. `throttled` is ns in which this control group had
    used up its CPU quota, `periods` and `throttled_periods` count those of the quota.
    """

    time: int
    cores: tuple[CoreCounters, ...]
    disks: tuple[DiskCounters, ...]
    received: int | None
    sent: int | None
    memory: tuple[int, int] | None
    swap: tuple[int, int] | None
    shared: tuple[int, int] | None
    major_faults: int | None
    stalled: dict[str, int]
    periods: int | None
    throttled_periods: int | None
    throttled: int | None


def read_machine(root: Path = Path("/")) -> MachineCounters:
    """`root` is where /proc, /sys and /dev are looked for."""
    proc = root / "proc"
    memory, faults = _sizes(proc / "meminfo"), _counts(proc / "vmstat")
    received, sent = _network(proc / "net/dev")
    quota = next((found for name in _CPU_STAT if (found := _counts(root / "sys/fs/cgroup" / name))), {})
    stalled = {name: _stalled(proc / "pressure" / name) for name in ("cpu", "memory", "io")}
    throttled = quota.get("throttled_time", quota["throttled_usec"] * 1000 if "throttled_usec" in quota else None)
    return MachineCounters(
        time=time.monotonic_ns(), cores=_cores(proc / "stat"), disks=_disks(proc / "diskstats"), received=received,
        sent=sent, memory=_used(memory, "MemTotal", "MemAvailable"), swap=_used(memory, "SwapTotal", "SwapFree"),
        shared=_file_system(root / "dev/shm"), major_faults=faults.get("pgmajfault"),
        stalled={name: time for name, time in stalled.items() if time is not None},
        periods=quota.get("nr_periods"), throttled_periods=quota.get("nr_throttled"), throttled=throttled,
    )  # fmt: skip


def _cores(path: Path) -> tuple[CoreCounters, ...]:
    rows = []
    for name, *words in (line.split() for line in _lines(path)):
        if name[:3] == "cpu" and name[3:].isdigit() and len(words) >= 8:
            user, nice, system, idle, iowait, irq, softirq, steal = (int(word) * _TICK_NS for word in words[:8])
            kernel = system + irq + softirq
            row = CoreCounters(
                core=int(name[3:]), user=user + nice, system=kernel, iowait=iowait, steal=steal, idle=idle
            )
            rows.append(row)
    return tuple(rows)


def _disks(path: Path) -> tuple[DiskCounters, ...]:
    """Whole disks that were ever used; what is made of them (partitions, dm, md) would count the same bytes again."""
    rows = []
    for _, _, name, *words in (line.split() for line in _lines(path) if len(line.split()) >= 14):
        counts = [int(word) for word in words[:11]]
        if _NO_DISK.match(name) or _PART.match(name) or name.startswith(("dm-", "md")) or not any(counts):
            continue
        reads, _, read, read_ms, writes, _, written, write_ms, _, busy_ms, queued_ms = counts
        rows.append(
            DiskCounters(
                name=name, reads=reads, read=read * _SECTOR, read_time=read_ms * 1_000_000, writes=writes,
                written=written * _SECTOR, write_time=write_ms * 1_000_000, busy=busy_ms * 1_000_000,
                queued=queued_ms * 1_000_000,
            )
        )  # fmt: skip
    return tuple(rows)


def _network(path: Path) -> tuple[int | None, int | None]:
    """Bytes that all cards received and sent."""
    rows = [
        (name.strip(), rest.split()) for name, colon, rest in (line.partition(":") for line in _lines(path)) if colon
    ]
    known = [(int(words[0]), int(words[8])) for name, words in rows if not _NO_CARD.match(name) and len(words) >= 9]
    return (sum(got for got, _ in known), sum(sent for _, sent in known)) if known else (None, None)


def _used(sizes: dict[str, int], whole: str, free: str) -> tuple[int, int] | None:
    return (sizes[whole] - sizes[free], sizes[whole]) if whole in sizes and free in sizes else None


def _file_system(path: Path) -> tuple[int, int] | None:
    try:
        status = os.statvfs(path)
    except (OSError, AttributeError):
        return None
    return (status.f_blocks - status.f_bfree) * status.f_frsize, status.f_blocks * status.f_frsize


def _stalled(path: Path) -> int | None:
    """ns since the start in which at least one task waited: `total=` of the line `some`, in µs."""
    for line in _lines(path):
        total = re.search(r"^some .*total=(\d+)", line)
        if total:
            return int(total[1]) * 1000
    return None


def _sizes(path: Path) -> dict[str, int]:
    """`MemTotal:  16384 kB` as bytes."""
    words = (line.replace(":", " ").split() for line in _lines(path))
    return {row[0]: int(row[1]) * 1024 for row in words if len(row) == 3 and row[1].isdigit()}


def _counts(path: Path) -> dict[str, int]:
    words = (line.split() for line in _lines(path))
    return {row[0]: int(row[1]) for row in words if len(row) == 2 and row[1].isdigit()}


def _lines(path: Path) -> list[str]:
    """Empty where the file does not exist or may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
