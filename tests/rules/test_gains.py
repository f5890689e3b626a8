"""A gain is a part of the step on its own clock, and no more than arithmetic allows."""

import pytest

from stepscope.core.finding import Gain
from stepscope.core.report import Lines
from stepscope.core.synth import MS, Synth
from stepscope.report.assemble import SECTIONS
from stepscope.report.diagnose import RULES, diagnose

from ..report.test_diagnose import job
from .input_pipeline.test_input_rules import epochs


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
    assert block.rule == "cpu-contention"
    assert gain is not None
    assert gain.high_ns == pytest.approx(45 * MS)
    assert gain.low_ns == pytest.approx(45 * MS)


def two_ranks(*, wait: float, sent: float, micro_batches: int = 1) -> Synth:
    """Steps of 100 ms: rank 1 waits for data and sends last, rank 0 waits for it inside the collective."""
    synth = Synth()
    for rank in (0, 1):
        synth.add("processes", rank=rank, world_size=2, backend="gloo")
        for step in range(12):
            start, own = 100 * step, wait if rank else 0
            synth.step(
                step, start, start + 100, data_wait=own, forward=30, backward=100 - own - 31, optimizer=1, rank=rank,
                micro_batches=micro_batches, tags=("traced",) if step >= 10 else (),
            )  # fmt: skip
            if step < 10:
                continue
            synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100, rank=rank)
            computing = 100 - wait - sent
            synth.host("aten::mm", "operator", start + own, start + own + computing, rank=rank)
            synth.host("gloo:all_reduce", "annotation", start + own + computing, start + 100, thread="2", rank=rank)
    return synth


def test_a_rank_that_waits_for_another_in_a_collective_gains_nothing_from_its_communication() -> None:
    diagnosis = diagnose(two_ranks(wait=60, sent=2).run())
    assert [block.rule for block in diagnosis.findings] == ["input-bound"]
    assert (diagnosis.verdict.bound, diagnosis.verdict.rank) == ("input", 1)


def test_the_chart_over_steps_is_of_the_rank_that_the_verdict_is_of() -> None:
    chart = SECTIONS.get("step-times").build(two_ranks(wait=60, sent=2).run())[0]
    assert isinstance(chart, Lines)
    assert chart.title == "Each step, rank 1"


def test_communication_gains_what_the_rank_that_communicates_least_could_save() -> None:
    diagnosis = diagnose(two_ranks(wait=4, sent=40).run())
    (block,) = diagnosis.findings
    assert (block.rule, block.finding.ranks) == ("exposed-communication", (0, 1))
    assert block.finding.gain is not None
    assert block.finding.gain.high_ns == 40 * MS
    assert diagnosis.verdict.bound == "communication"
    assert diagnosis.verdict.share == pytest.approx(0.4)


def test_steps_of_one_micro_batch_are_not_told_to_send_their_gradients_once() -> None:
    (one,) = diagnose(two_ranks(wait=0, sent=40).run()).findings
    (several,) = diagnose(two_ranks(wait=0, sent=40, micro_batches=2).run()).findings
    told = [[advice for advice in block.finding.advice if "no_sync" in advice.code] for block in (one, several)]
    assert [len(advice) for advice in told] == [0, 1]
    assert not any("bucket_cap_mb" in advice.code for advice in one.finding.advice), "all gradients are in one call"


def test_a_job_that_uses_no_sync_is_not_told_to() -> None:
    synth = two_ranks(wait=0, sent=40, micro_batches=2)
    for rank in (0, 1):
        for step in (10, 11):
            for at in (0, 20):
                start = 100 * step + at
                synth.host("DistributedDataParallel.forward", "annotation", start, start + 10, rank=rank)
    (block,) = diagnose(synth.run()).findings
    assert not any("no_sync" in advice.code for advice in block.finding.advice)


def test_the_validation_between_epochs_is_no_end_of_workers() -> None:
    """Workers take 100 ms to start, and a validation of two seconds follows each epoch."""
    synth = Synth().add("loaders", loader=0, train=True, num_workers=2, persistent_workers=False)
    at = 0.0
    for step in range(60):
        first = step % 10 == 0
        wait, other = (101, 2000) if first else (1, 0)
        tags = ("epoch-start", "evaluation") if first else ()
        synth.step(step, at, at + 50 + wait + other, data_wait=wait, forward=24, backward=26, tags=tags)
        at += 50 + wait + other
    gains = {block.rule: block.finding.gain for block in diagnose(synth.run()).findings}
    assert set(gains) == {"periodic-stall"}, "100 ms in ten steps is less than a twentieth of them"
    assert gains["periodic-stall"] is not None
    (finding,) = RULES.get("worker-restarts").check(epochs(start=1000, fetch=0))
    assert finding.gain is not None
    assert finding.gain.high_ns == pytest.approx(1.3 * 1000 * MS * 5 / 57, rel=0.02)
