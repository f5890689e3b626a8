"""A job that may use fewer cores than its machine has."""

from stepscope.core.synth import Synth
from stepscope.report.diagnose import diagnose

STEPS = 12


def job(*, affinity: int, threads: int, machine: int | None = 2, waited: float = 0, others: float = 0.02) -> Synth:
    """Steps of 100 ms of long operators, of which the main thread waits `waited` for a core."""
    synth = Synth()
    known = "" if machine is None else f'"machine": {machine}, '
    synth.add("meta", source="run.json", key="cores", value=f'{{{known}"affinity": 2, "effective": 2}}')
    synth.add("processes", rank=0, host="n0", threads=threads, affinity=affinity)
    for step in range(STEPS):
        start, traced = 100 * step, step >= STEPS - 2
        tags = ("traced",) if traced else ()
        synth.step(step, start, start + 100, forward=30, backward=70, tags=tags)
        if traced:
            synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
            synth.host("aten::convolution", "operator", start, start + 30)
            name = "autograd::engine::evaluate_function: ConvolutionBackward0"
            synth.host(name, "operator", start + 30, start + 100, forward_thread=1, sequence=step)
        time = int((start + 50) * 1_000_000)
        synth.add("system", time=time, what="core wait", value=waited / 100, unit="ratio")
        for what, value in (("job CPU", min(affinity, threads)), ("other CPU", others)):
            synth.add("system", time=time, rank=None, what=what, value=value, unit="cores")
    return synth


def rules(synth: Synth) -> list[str]:
    return [block.rule for block in diagnose(synth.run()).findings]


def test_threads_that_were_counted_before_the_job_was_bound_are_not_too_many() -> None:
    assert rules(job(affinity=1, threads=2, waited=50)) == ["few-cores"]
    assert "few-cores" not in rules(job(affinity=2, threads=16, waited=50))


def test_cores_that_others_use_are_not_free() -> None:
    assert "few-cores" not in rules(job(affinity=1, threads=1, others=0.9))


def test_a_run_that_does_not_tell_the_machine_is_not_checked() -> None:
    unchecked = diagnose(job(affinity=1, threads=1, machine=None).run()).unchecked
    assert "few-cores" in [one.rule for one in unchecked]
