"""Page faults count where the kernel's time is due to them, in jobs on the CPU."""

import pytest

from stepscope.core.finding import Finding
from stepscope.core.synth import MS, Synth
from stepscope.report.diagnose import RULES


def counted(faults: float, kernel: float, memory: float = 3e9) -> Synth:
    """Twenty steps of 100 ms, with page faults per second and cores in the kernel."""
    synth = Synth()
    for step in range(20):
        synth.step(step, 100 * step, 100 * step + 100, forward=50, backward=50)
        time = (100 * step + 50) * MS
        for what, value in (("page faults", faults), ("kernel CPU", kernel)):
            synth.add("system", time=time, what=what, value=value, unit="")
        synth.add("system", time=time, rank=None, what="job memory", value=memory, unit="bytes")
    return synth


def found(synth: Synth) -> list[Finding]:
    return list(RULES.get("page-faults").check(synth.run()))


@pytest.mark.parametrize(
    ("faults", "kernel", "low", "high"),
    [
        (200_000, 0.4, 22, 44),  # 40 ms of a step in the kernel, 2 µs each
        (100_000, 0.9, 13.75, 27.5),  # 90 ms, of which 10,000 faults explain 25
    ],
)
def test_the_gain_is_the_kernels_time_as_far_as_faults_explain_it(
    faults: float, kernel: float, low: float, high: float
) -> None:
    gain = found(counted(faults, kernel))[0].gain
    assert gain is not None
    assert [gain.low_ns, gain.high_ns] == pytest.approx([low * MS, high * MS])


@pytest.mark.parametrize(("faults", "kernel"), [(20_000, 0.9), (200_000, 0.05)])
def test_other_work_of_the_kernel_and_cheap_faults_are_none(faults: float, kernel: float) -> None:
    assert found(counted(faults, kernel)) == []


def test_the_memory_to_keep_is_a_power_of_two_above_what_the_job_uses() -> None:
    assert found(counted(200_000, 0.4))[0].advice[0].code == "export MALLOC_TOP_PAD_=4294967296"


def test_a_job_with_a_gpu_is_left_out() -> None:
    synth = counted(200_000, 0.4)
    for step in range(20):
        synth.host(f"ProfilerStep#{step}", "annotation", 100 * step, 100 * step + 100)
        synth.kernel(100 * step, 100 * step + 90)
    assert found(synth) == []


def test_pages_by_which_the_job_grows_are_left_out() -> None:
    """20,000 faults a step cost 40 ms; 819 MB a second, 200,000 pages, are kept."""
    synth = counted(200_000, 0.4, memory=0)
    for step in range(20):
        memory = 100 * step * 819_200
        synth.add("system", time=(100 * step + 51) * MS, rank=None, what="job memory", value=memory, unit="bytes")
    assert found(synth) == []
