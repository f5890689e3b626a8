"""CPU time of one reading of `stepscope top`, beside psutil asked for the same of the same processes.

python bench/process_sampling.py            # trees of 5, 20 and 100 sleeping processes

Both read, for each process: CPU time, memory, threads, state, I/O, context switches, command line, parent; and of the
machine cores, disks, memory and network. A line gives ms of CPU a reading: at one a second, per mille of a core.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable

import psutil

from stepscope.observe.machine_counters import read_machine
from stepscope.observe.process_tree import ProcessCounters, read_tree

ROUNDS = 20
FIELDS = [
    "cpu_times",
    "memory_info",
    "num_threads",
    "status",
    "io_counters",
    "num_ctx_switches",
    "cmdline",
    "ppid",
    "name",
]


_last: list[tuple[ProcessCounters, ...]] = [()]


def ours(pid: int) -> int:
    read_machine()
    _last[0] = read_tree(pid, before=_last[0])
    return len(_last[0])


def with_psutil(pid: int) -> int:
    psutil.cpu_times(percpu=True), psutil.disk_io_counters(perdisk=True), psutil.virtual_memory()
    psutil.swap_memory(), psutil.net_io_counters()
    root = psutil.Process(pid)
    tree = [root, *root.children(recursive=True)]
    return len([process.as_dict(FIELDS) for process in tree])


def cost(read: Callable[[int], int], pid: int) -> float:
    """Median ms of CPU."""
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time_ns()
        read(pid)
        times.append(time.process_time_ns() - begin)
    return sorted(times)[ROUNDS // 2] / 1e6


def main() -> None:
    for count in (5, 20, 100):
        shell = subprocess.Popen(["sh", "-c", f"{'sleep 600 & ' * (count - 1)}wait"], start_new_session=True)
        time.sleep(0.5)
        assert ours(shell.pid) == with_psutil(shell.pid) == count
        here, there = cost(ours, shell.pid), cost(with_psutil, shell.pid)
        print(f"{count:4} processes: stepscope {here:6.2f} ms, psutil {there:6.2f} ms, ratio {here / there:.2f}")
        os.killpg(shell.pid, 9)
        shell.wait()
    print(f"resident memory {psutil.Process().memory_info().rss / 2**20:.0f} MiB, psutil included", file=sys.stderr)


if __name__ == "__main__":
    main()
