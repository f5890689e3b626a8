"""What processes, cores and disks did between two readings, per second of the time between them.

Disks as `iostat -x` has them: `wait` is the mean time of a request, `queue` the mean number of requests under way,
`busy` the part of the time with any. A disk that serves many requests at once may be busy all the time and take more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stepscope.observe.machine_counters import CoreCounters, DiskCounters, MachineCounters
from stepscope.observe.process_tree import ProcessCounters

__all__ = ["CoreRates", "DiskRates", "MachineRates", "ProcessRates", "machine_rates", "process_rates"]

_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRates:
    """`cpu` in cores, `waited` as the part of the time, bytes, faults and switches per second; None: not told."""

    now: ProcessCounters
    depth: int
    cpu: float
    waited: float | None
    read: float | None
    written: float | None
    call_read: float | None
    call_written: float | None
    switches: float | None
    forced_switches: float | None
    major_faults: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreRates:
    """Parts of the time."""

    core: int
    user: float
    system: float
    iowait: float
    steal: float

    @property
    def busy(self) -> float:
        """Part of the time in which it computed."""
        return self.user + self.system


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRates:
    """Requests and bytes per second, `wait` in ns (None without requests), the mean queue, and the busy part."""

    name: str
    reads: float
    read: float
    writes: float
    written: float
    wait: float | None
    queue: float
    busy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRates:
    """`seconds` between the readings; `now` is the later one. Pressure and throttling are parts of the time."""

    seconds: float
    now: MachineCounters
    cores: tuple[CoreRates, ...]
    disks: tuple[DiskRates, ...]
    received: float | None
    sent: float | None
    major_faults: float | None
    stalled: dict[str, float]
    throttled: float | None

    @property
    def busy_cores(self) -> float:
        """Cores in use."""
        return sum(core.busy for core in self.cores)


def machine_rates(before: MachineCounters, now: MachineCounters) -> MachineRates:
    """What the machine did between two readings; a core or disk that was not there before is left out."""
    seconds = max(now.time - before.time, 1) / _SECOND
    cores, disks = {core.core: core for core in before.cores}, {disk.name: disk for disk in before.disks}
    return MachineRates(
        seconds=seconds, now=now,
        cores=tuple(_core(cores[core.core], core) for core in now.cores if core.core in cores),
        disks=tuple(_disk(disks[disk.name], disk, seconds) for disk in now.disks if disk.name in disks),
        received=_rate(before.received, now.received, seconds), sent=_rate(before.sent, now.sent, seconds),
        major_faults=_rate(before.major_faults, now.major_faults, seconds),
        stalled={
            name: min(1.0, (time - before.stalled[name]) / seconds / _SECOND)
            for name, time in now.stalled.items() if name in before.stalled
        },
        throttled=_part(before.throttled, now.throttled, seconds),
    )  # fmt: skip


def process_rates(
    before: Iterable[ProcessCounters], now: Iterable[ProcessCounters], seconds: float
) -> tuple[ProcessRates, ...]:
    """The processes of the later reading in its order. One that began in between has done all of it in this time."""
    known, rows = {(one.pid, one.started): one for one in before}, list(now)
    parents = {one.pid: one.parent for one in rows}
    return tuple(_process(known.get((one.pid, one.started)), one, _depth(one.pid, parents), seconds) for one in rows)


def _process(before: ProcessCounters | None, now: ProcessCounters, depth: int, seconds: float) -> ProcessRates:
    def rate(name: str) -> float | None:
        return _rate(0 if before is None else getattr(before, name), getattr(now, name), seconds)

    waited = _part(0 if before is None else before.waited, now.waited, seconds)
    return ProcessRates(
        now=now, depth=depth, cpu=(rate("cpu") or 0.0) / _SECOND, waited=waited, read=rate("read"),
        written=rate("written"), call_read=rate("call_read"), call_written=rate("call_written"),
        switches=rate("switches"), forced_switches=rate("forced_switches"), major_faults=rate("major_faults") or 0.0,
    )  # fmt: skip


def _core(before: CoreCounters, now: CoreCounters) -> CoreRates:
    """Parts of the ticks that the kernel counted: they are what its idle time is counted in, too."""
    parts = {name: max(0, getattr(now, name) - getattr(before, name)) for name in ("user", "system", "iowait", "steal")}
    whole = sum(parts.values()) + max(0, now.idle - before.idle)
    return CoreRates(core=now.core, **{name: part / whole if whole else 0.0 for name, part in parts.items()})


def _disk(before: DiskCounters, now: DiskCounters, seconds: float) -> DiskRates:
    requests = now.reads - before.reads + now.writes - before.writes
    took = now.read_time - before.read_time + now.write_time - before.write_time
    return DiskRates(
        name=now.name, reads=(now.reads - before.reads) / seconds, read=(now.read - before.read) / seconds,
        writes=(now.writes - before.writes) / seconds, written=(now.written - before.written) / seconds,
        wait=took / requests if requests else None, queue=(now.queued - before.queued) / seconds / _SECOND,
        busy=min(1.0, (now.busy - before.busy) / seconds / _SECOND),
    )  # fmt: skip


def _rate(before: int | None, now: int | None, seconds: float) -> float | None:
    return None if before is None or now is None else max(0, now - before) / seconds


def _part(before: int | None, now: int | None, seconds: float) -> float | None:
    """The part of the time, of a count in ns."""
    found = _rate(before, now, seconds)
    return None if found is None else min(1.0, found / _SECOND)


def _depth(pid: int, parents: dict[int, int]) -> int:
    """How far below the first process of the reading; no further than there are processes."""
    depth = 0
    while parents.get(pid) in parents and depth < len(parents):
        pid, depth = parents[pid], depth + 1
    return depth
