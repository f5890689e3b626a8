"""A gain is a part of the step on its own clock, and no more than arithmetic allows."""

import pytest

from stepscope.core.finding import Gain
from stepscope.core.synth import MS, Synth
from stepscope.diagnose import diagnose

from .test_diagnose import job


def test_a_gain_is_never_more_than_the_step_it_is_of() -> None:
    with pytest.raises(ValueError, match="not \\[0, 11\\] of 10"):
        Gain(low_ns=0, high_ns=11, step_ns=10, basis="test", confidence="table")


def test_a_gain_on_the_device_is_a_share_of_the_step_of_the_device() -> None:
    """The host launches a step in 5 ms and is 100 ms ahead: idle time of the device is no part of the host's step."""
    synth = Synth()
    for step in range(4):
        synth.host(f"ProfilerStep#{step}", "annotation", 5 * step, 5 * step + 5)
        synth.kernel(5 * step, 5 * step + 2)
    synth.kernel(100, 102)
    (block,) = diagnose(synth.run()).findings
    gain = block.finding.gain
    assert gain is not None
    assert (gain.step_ns, gain.high_ns) == (25.5 * MS, 23 * MS)


def test_kernels_before_the_first_step_are_no_part_of_a_step() -> None:
    """Before its steps the job multiplies for a second in float32: a step of 40 ms saves no more than it holds."""
    synth = Synth().add("devices", device=0, name="NVIDIA A100", capability="8.0")
    synth.kernel(0, 1000, "ampere_sgemm_128x64_tn")
    for step in range(4):
        start = 1000 + 40 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 40)
        synth.kernel(start, start + 20, "ampere_sgemm_128x64_tn")
        synth.kernel(start + 20, start + 40)
    (block,) = diagnose(synth.run()).findings
    assert (block.rule, block.finding.evidence[0].value) == ("fp32-matmul", 20 * MS)


def test_other_programs_cannot_have_taken_more_than_the_job_leaves_of_its_cores() -> None:
    """The job keeps 1.1 of 2 cores busy: alone it is at most 45 % faster, however long its main thread waited."""
    synth = job(backward=60).add("meta", source="run.json", key="cores", value='{"effective": 2}')
    for what, value in (("job CPU", 1.1), ("other CPU", 0.9), ("core wait", 0.88)):
        synth.add("system", time=20 * 100 * MS, what=what, value=value, unit="cores")
    (block,) = diagnose(synth.run()).findings
    gain = block.finding.gain
    assert block.rule == "taken-cores"
    assert gain is not None
    assert gain.high_ns == pytest.approx(45 * MS)
    assert gain.low_ns == pytest.approx(45 * MS)
