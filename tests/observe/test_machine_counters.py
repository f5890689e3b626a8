"""Counters of a machine, and what two readings of them say."""

import os
from pathlib import Path

import pytest

from stepscope.observe.machine_counters import MachineCounters, read_machine
from stepscope.observe.rates import machine_rates

TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
STAT = "cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 {} 0 {} {} {} 0 0 {} 0 0\nintr 1\n"
DISKS = """\
   7       0 loop0 9 0 9 9 0 0 0 0 0 9 9
   8       0 sda {} 0 {} {} {} 0 {} {} 0 {} {}
   8       1 sda1 5 0 5 5 5 0 5 5 0 5 5
 253       0 dm-0 5 0 5 5 5 0 5 5 0 5 5
 259       0 nvme0n1 0 0 0 0 0 0 0 0 0 0 0
"""


def machine(
    root: Path, *, ticks: tuple[int, ...], disk: tuple[int, ...], network: int, pressure: int, quota: int
) -> None:
    for folder in ("proc/net", "proc/pressure", "sys/fs/cgroup"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "proc/stat").write_text(STAT.format(*ticks))
    (root / "proc/diskstats").write_text(DISKS.format(*disk))
    heads = "Inter-|   Receive  |  Transmit\n face |bytes packets | bytes\n"
    card = f"  eth0: {network} 0 0 0 0 0 0 0 {2 * network} 0 0 0 0 0 0 0\n    lo: 99 0 0 0 0 0 0 0 99 0 0 0 0 0 0 0\n"
    (root / "proc/net/dev").write_text(heads + card)
    (root / "proc/pressure/io").write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={pressure}\nfull total=1\n")
    (root / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n")
    (root / "proc/vmstat").write_text("pgmajfault 7\n")
    (root / "sys/fs/cgroup/cpu.stat").write_text(f"nr_periods 10\nnr_throttled 4\nthrottled_usec {quota}\n")


def reading(root: Path, time: int) -> MachineCounters:
    found = read_machine(root)
    return MachineCounters(**{name: getattr(found, name) for name in found.__slots__} | {"time": time})


def test_two_readings_say_what_cores_disks_and_network_did(tmp_path: Path) -> None:
    machine(tmp_path, ticks=(0,) * 5, disk=(0, 0, 0, 0, 0, 0, 1, 0), network=0, pressure=0, quota=0)
    before = reading(tmp_path, 0)
    # In 2 s: 100 reads of 2,048 sectors that took 300 ms, 50 writes of 1,024 in 150 ms; busy 400 ms, 1 s queued.
    machine(
        tmp_path, ticks=(120, 40, 20, 10, 10), disk=(100, 2048, 300, 50, 1024, 150, 401, 1000), network=4000,
        pressure=500_000, quota=100_000,
    )  # fmt: skip
    rates = machine_rates(before, reading(tmp_path, 2_000_000_000))
    (core,) = rates.cores
    assert (core.user, core.system, core.iowait, core.steal, core.busy) == (0.6, 0.2, 0.05, 0.05, 0.8)
    (disk,) = rates.disks
    assert (disk.name, disk.reads, disk.read, disk.writes, disk.written) == ("sda", 50, 524_288, 25, 262_144)
    assert (disk.wait, disk.queue, disk.busy) == (3_000_000, 0.5, 0.2)
    assert (rates.received, rates.sent, rates.stalled, rates.throttled) == (2000, 4000, {"io": 0.25}, 0.05)
    assert (rates.now.memory, rates.now.swap, rates.major_faults) == ((600 * 1024, 1000 * 1024), None, 0)


def test_a_machine_that_tells_nothing_has_unknown_figures(tmp_path: Path) -> None:
    found = read_machine(tmp_path)
    assert (found.cores, found.disks, found.received, found.memory, found.stalled) == ((), (), None, None, {})
    assert (found.shared, found.throttled, found.major_faults) == (None, None, None)


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="this system has no /proc")
def test_this_machine_can_be_read() -> None:
    found = read_machine()
    assert len(found.cores) == os.cpu_count()
    assert found.memory and 0 < found.memory[0] < found.memory[1]
