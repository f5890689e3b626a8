"""When a busy thread is the reason that training waits, and when not."""

from stepscope.core.synth import Synth
from stepscope.report.diagnose import RULES
from stepscope.rules.host.gil_contention import example

SECOND = 1_000_000_000


def job() -> Synth:
    synth = Synth()
    example(synth, False)
    return synth


def found(synth: Synth) -> list[tuple[int, int]]:
    gains = (finding.gain for finding in RULES.get("gil-contention").check(synth.run()))
    return [(gain.low_ns, gain.high_ns) for gain in gains if gain]


def test_the_idle_time_is_saved_at_least_and_the_wait_for_a_core_at_most() -> None:
    synth = Synth().add("processes", rank=0, probe="compiled")
    for step in range(30):
        synth.step(step, 200 * step, 200 * step + 200, forward=100, backward=100, optimizer=0)
    for at in range(1, 6):
        for thread, training in (("MainThread", True), ("Thread-1", False)):
            synth.add(
                "thread_times", rank=0, thread=thread, training=training, time=at * SECOND, span=SECOND,
                cpu=SECOND // 2, ready=SECOND // 5,
            )  # fmt: skip
    assert found(synth) == [(60_000_000, 100_000_000)]


def test_a_wait_for_workers_is_not_one_for_the_interpreter() -> None:
    synth = Synth().add("processes", rank=0, probe="compiled").add("loaders", rank=0, loader=0, num_workers=2)
    for step in range(30):
        synth.step(step, 200 * step, 200 * step + 200, data_wait=96, forward=52, backward=52, optimizer=0)
    for at in range(1, 6):
        for thread, training in (("MainThread", True), ("Thread-1", False)):
            synth.add(
                "thread_times", rank=0, thread=thread, training=training, time=at * SECOND, span=SECOND,
                cpu=SECOND // 2, ready=0,
            )  # fmt: skip
    assert found(synth) == []


def test_jobs_that_wait_for_a_device_or_another_rank_are_left_out() -> None:
    on_gpu, of_two, one_of_two = job(), job(), job()
    on_gpu.add("devices", rank=0, device=0, name="H100")
    of_two.step(0, 0, 200, rank=1, forward=100, backward=100, optimizer=0)
    assert (len(found(job())), found(on_gpu)) == (1, [])
    one_of_two.add("processes", rank=0, pid="8", world_size=2)
    assert found(of_two) == found(one_of_two) == []
