"""Effective cores, with control groups laid out as the kernel does."""

import os
from pathlib import Path

import pytest

from stepscope.observe.cores import effective_cores

AFFINITY = len(os.sched_getaffinity(0))


def lay(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "50000 100000\n"}, 0.5),
        # the tightest group on the way up counts, and a container sees its own group at the top
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
                "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
            },
            1.5,
        ),
        ({"proc/self/cgroup": "0::/not/here\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2.0),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/docker/1\n1:name=systemd:/\n",
                "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us": "25000\n",
                "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000\n",
            },
            0.25,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
    ],
)
def test_the_quota_is_the_tightest_there_is(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    cores = effective_cores(lay(tmp_path, files))
    assert (cores.affinity, cores.cgroup_quota) == (AFFINITY, quota)
    assert cores.effective == (AFFINITY if quota is None else min(AFFINITY, quota))


def test_this_machine_has_cores() -> None:
    cores = effective_cores()
    assert 0 < cores.effective <= AFFINITY <= cores.machine
