"""The system sampler on real processes."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stepscope.observe.system import SystemSampler

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")

BURN = "import time\nbegin = time.process_time()\nwhile time.process_time() - begin < {seconds}: pass"

THEN_WAIT = "\nprint(1, flush=True)\nimport sys\nsys.stdin.read()"


@contextmanager
def process(code: str) -> Iterator[subprocess.Popen[bytes]]:
    running = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def test_a_burning_grandchild_is_in_the_sum() -> None:
    code = f"""
import subprocess, sys
burn = {BURN.format(seconds=60)!r}
child = subprocess.Popen([sys.executable, "-c", burn])
print("up", flush=True)
sys.stdin.read()
child.kill()
"""
    with process(code) as job:
        assert job.stdout is not None and job.stdout.readline() == b"up\n"
        begin, began = _child_seconds(job.pid), time.monotonic()
        sampler = SystemSampler(job.pid)
        time.sleep(0.5)
        row = sampler.sample()
        used, took = _child_seconds(job.pid) - begin, time.monotonic() - began
        job.communicate(b"")
    assert row["job_cpu_ratio"] * took == pytest.approx(used, abs=0.15)
    assert row["job_cpu_ratio"] > 0
    assert 0 < row["system_cpu_ratio"] <= 1
    assert row["cores"] == os.cpu_count()
    assert abs(row["epoch_ns"] - time.time_ns()) < 60e9


def test_page_faults_and_the_kernels_time_are_those_of_each_process() -> None:
    touch = "import mmap\nfor _ in range(40): mmap.mmap(-1, 1 << 24).write(bytes(1 << 24))"
    with process(f"print(1, flush=True)\nimport sys\nsys.stdin.readline()\n{touch}{THEN_WAIT}") as job:
        assert job.stdin is not None
        assert job.stdout is not None and job.stdout.readline() == b"1\n"
        sampler, began = SystemSampler(job.pid), time.monotonic()
        job.stdin.write(b"\n")
        job.stdin.flush()
        assert job.stdout.readline() == b"1\n"
        row = sampler.sample()
        took = time.monotonic() - began
        quiet = sampler.sample()
    pages = 40 * (1 << 24) // 4096
    assert row["page_faults"][str(job.pid)] * took == pytest.approx(pages, rel=0.2)
    assert 0 < row["kernel_cores"][str(job.pid)] <= 1.2
    assert quiet["page_faults"][str(job.pid)] * took < pages / 10


def _child_seconds(pid: int) -> float:
    """CPU time of the child of a process."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listed:
        child = listed.read().split()[0]
    with open(f"/proc/{child}/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_sleeping_job_uses_no_core_and_some_memory() -> None:
    with process("import sys; print(flush=True); sys.stdin.read()") as job:
        assert job.stdout is not None
        job.stdout.readline()
        sampler = SystemSampler(job.pid)
        time.sleep(0.2)
        row = sampler.sample()
        assert row["job_cpu_ratio"] < 0.2
        assert 1_000_000 < row["job_rss_bytes"] < 100_000_000


def test_what_an_ended_process_had_used_is_not_taken_back() -> None:
    code = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {(BURN.format(seconds=0.3) + THEN_WAIT)!r}])
print("ended", flush=True)
sys.stdin.read()
"""
    with process(code) as job:
        assert job.stdin is not None and job.stdout is not None
        sampler = SystemSampler(job.pid)
        assert job.stdout.readline() == b"1\n"
        first = sampler.sample()
        (child,) = [pid for pid in sampler._used if pid != job.pid]
        os.kill(child, 9)
        assert job.stdout.readline() == b"ended\n"
        second, began = sampler.sample(), time.monotonic()
        time.sleep(0.2)  # one tick of the clock that counts CPU time is much of a shorter time
        third, took = sampler.sample(), time.monotonic() - began
    assert first["job_cpu_ratio"] > 0
    assert second["job_cpu_ratio"] >= 0
    assert 0 <= third["job_cpu_ratio"] * took < 0.15, "half of what the ended process had used"
    assert child not in sampler._used


def test_what_an_ended_job_uses_is_absent() -> None:
    with process("") as job:
        job.wait()
    sampler = SystemSampler(job.pid)
    time.sleep(0.1)
    assert set(sampler.sample()) == {"epoch_ns", "cores", "system_cpu_ratio"}


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="needs the scheduler's statistics")
def test_two_that_share_a_core_wait_for_it_and_a_sleeping_job_does_not() -> None:
    core = min(os.sched_getaffinity(0))
    burn = f"import os; os.sched_setaffinity(0, [{core}]); print(flush=True)\n{BURN.format(seconds=60)}"
    with process("print(flush=True); input()") as idle, process(burn) as job, process(burn) as other:
        for each in (idle, job, other):
            assert each.stdout is not None and each.stdout.readline() == b"\n"
        samplers = [SystemSampler(each.pid) for each in (job, idle)]
        time.sleep(1.0)
        busy, asleep = (sampler.sample()["core_wait_ratio"] for sampler in samplers)
    assert 0.3 < busy[str(job.pid)] <= 1, "half, or all beside other work on that core"
    assert asleep[str(idle.pid)] < 0.1


def test_processes_that_live_between_two_samples_are_the_jobs() -> None:
    """Workers that a job starts anew for each epoch; what they used must not be taken for other programs'."""
    burn = BURN.format(seconds=0.2)
    code = f"""
import subprocess, sys
print("up", flush=True)
sys.stdin.readline()
for _ in range(3):
    subprocess.run([sys.executable, "-c", {burn!r}])
print("ended", flush=True)
sys.stdin.read()
"""
    with process(code) as job:
        assert job.stdin is not None and job.stdout is not None and job.stdout.readline() == b"up\n"
        sampler = SystemSampler(job.pid)
        began = time.monotonic()
        job.stdin.write(b"go\n")
        job.stdin.flush()
        assert job.stdout.readline() == b"ended\n"
        seconds = sampler.sample()["job_cpu_ratio"] * (time.monotonic() - began)
        time.sleep(0.2)
        assert sampler.sample()["job_cpu_ratio"] < 0.2, "counted once"
    assert 0.55 < seconds < 1.5, "three times 0.2 s, and the start of Python"


def test_gpus_are_absent_without_a_driver() -> None:
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("this machine has an NVIDIA driver")
    assert "gpus" not in SystemSampler(os.getpid()).sample()
