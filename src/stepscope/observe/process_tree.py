"""What the processes of a tree have used so far, read from /proc: two readings make a row of `stepscope top`.

Fields as in proc(5): CPU is utime and stime of all threads; read and written bytes are those that reached the block
layer; calls' bytes also count caches, pipes and sockets. `waited` is the time that the main thread could run and had no
core (the kernel's sched-stats.rst). What a process or this machine does not tell is None.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stepscope.observe.children import children_of

__all__ = ["ProcessCounters", "read_processes", "read_tree"]

_WORKER = "pt_data_worker"  # how torch 2.6 and later call the process of a loader's worker
_RANK = b"RANK="
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_TICK_NS = 1_000_000_000 // (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCounters:
    """Counts since the process began, times in ns. `started` is in ticks since boot: with `pid` it names a process.

    `rank` is the RANK that it was started with, `worker` tells a worker of torch's DataLoader. `state` is the kernel's
    letter: R runs, S sleeps, D waits for a disk or a file server, Z has ended and nobody has waited for it, T stands
    still.
    """

    pid: int
    started: int
    parent: int
    name: str
    command: str
    state: str
    threads: int
    cpu: int
    rss: int
    major_faults: int
    waited: int | None
    read: int | None
    written: int | None
    call_read: int | None
    call_written: int | None
    switches: int | None
    forced_switches: int | None
    rank: int | None
    worker: bool


def read_tree(
    root: int, proc: Path = Path("/proc"), before: Iterable[ProcessCounters] = ()
) -> tuple[ProcessCounters, ...]:
    """The process `root` and all below it, each followed by its children; empty where it has ended.

    A process that ends meanwhile is left out. What cannot have changed since the reading `before` is taken from there.
    """
    known = {one.pid: one for one in before}
    children, found, waiting, seen = children_of(proc), [], [root], set[int]()
    while waiting:
        pid = waiting.pop(0)
        counters = _counters(proc / str(pid), pid, known.get(pid)) if pid not in seen else None
        seen.add(pid)
        if counters is not None:
            found.append(counters)
            waiting[:0] = sorted(children(pid))
    return tuple(found)


def read_processes(proc: Path = Path("/proc"), before: Iterable[ProcessCounters] = ()) -> tuple[ProcessCounters, ...]:
    """All processes that can be seen, by number; `before` as in `read_tree`."""
    known = {one.pid: one for one in before}
    pids = sorted(int(name) for name in os.listdir(proc) if name.isdigit())
    return tuple(one for pid in pids if (one := _counters(proc / str(pid), pid, known.get(pid))) is not None)


def _counters(folder: Path, pid: int, before: ProcessCounters | None) -> ProcessCounters | None:
    """None of a process that has ended."""
    try:
        name, _, rest = (folder / "stat").read_bytes().partition(b"(")[2].rpartition(b")")
        fields = rest.split()
        own = {"utime": int(fields[11]), "stime": int(fields[12])}
        started, parent, threads = int(fields[19]), int(fields[1]), int(fields[17])
        rss, faults = int(fields[21]) * _PAGE, int(fields[9])
    except (OSError, ValueError, IndexError):
        return None
    called = name.decode("utf-8", "replace")
    if before is None or (before.started, before.name) != (started, called):  # exec() keeps the number and the start
        before = None
    io, status, waits = _named(folder / "io"), _named(folder / "status"), _read(folder / "schedstat").split()
    return ProcessCounters(
        pid=pid, started=started, parent=parent, name=called,
        command=before.command if before else _command(folder),
        state=fields[0].decode("ascii", "replace"), threads=threads, cpu=sum(own.values()) * _TICK_NS, rss=rss,
        major_faults=faults, waited=int(waits[1]) if len(waits) == 3 else None, read=io.get("read_bytes"),
        written=io.get("write_bytes"), call_read=io.get("rchar"), call_written=io.get("wchar"),
        switches=status.get("voluntary_ctxt_switches"), forced_switches=status.get("nonvoluntary_ctxt_switches"),
        rank=before.rank if before else _rank(folder), worker=name == _WORKER.encode(),
    )  # fmt: skip


def _command(folder: Path) -> str:
    """All of the command line; empty of the kernel's own threads and of a process that has ended."""
    return _read(folder / "cmdline").replace("\0", " ").strip()


def _rank(folder: Path) -> int | None:
    """RANK in the environment that the process was started with; None where there is none, or it may not be read."""
    try:
        words = (folder / "environ").read_bytes().split(b"\0")
        return next((int(word[len(_RANK) :]) for word in words if word.startswith(_RANK)), None)
    except (OSError, ValueError):
        return None


def _named(path: Path) -> dict[str, int]:
    """Lines `name: count`; those of other kinds are left out."""
    pairs = (line.partition(":")[::2] for line in _read(path).splitlines())
    return {name: int(value) for name, value in pairs if value.strip().isdigit()}


def _read(path: Path) -> str:
    """Empty where it does not exist or may not be read."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
