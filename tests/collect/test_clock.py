"""The step clock against a clock that the test turns: every part of every step is known to the nanosecond."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.collect.step_clock import clock as clocks

from .fake_job import KINDS, Job, Optimizer, Script, Source, fail


def test_a_plain_step_is_split_into_its_parts(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained
    job.train(source, optimizer)
    job.row(step=1, data_wait=10, forward=20, backward=30, optimizer=4, other=1, samples=8, micro_batches=1, flags=0)
    assert job.rows[1]["start"] == job.rows[0]["end"]


def test_the_first_step_begins_with_the_first_event(trained: tuple[Job, Source, Optimizer]) -> None:
    job, _, _ = trained
    job.row(step=0, start=1001, data_wait=10, forward=20, backward=30, optimizer=4, other=0)


def test_accumulation_sums_its_micro_batches(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained
    for _ in range(4):
        job.fetch(source, 10)
        job.spend(20)
        job.backward(30)
        job.spend(2)
    job.optimize(optimizer, 4)
    job.row(data_wait=40, forward=80, backward=120, optimizer=4, other=8, samples=32, micro_batches=4)


def test_all_batches_fetched_before_the_first_backward(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained
    for _ in range(4):
        job.spend(1)
        job.fetch(source, 10)
    for _ in range(4):
        job.spend(20)
        job.backward(30)
    job.optimize(optimizer, 4)
    job.row(data_wait=40, forward=80, backward=120, optimizer=4, other=4, samples=32, micro_batches=4)


def test_a_closure_leaves_the_optimizer_only_what_follows_its_backward(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained

    def closure() -> None:
        job.spend(20)
        job.backward(30)
        job.spend(4)

    job.fetch(source, 10)
    job.optimize(optimizer, 0, closure)
    job.row(data_wait=10, forward=20, backward=30, optimizer=4, other=0, flags=256)


def test_an_optimizer_around_another_ends_the_step(job: Job) -> None:
    source, outer, inner = job.loader(), Optimizer(), Optimizer()
    for _ in range(2):
        job.fetch(source, 10)
        job.backward(30)
        job.optimize(outer, 3, lambda: job.optimize(inner, 4))
    assert [(row["step"], row["optimizer"]) for row in job.rows] == [(0, 7), (1, 7)]


def test_a_backward_in_another_thread_passes_by(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained
    job.thread = 8
    job.backward(1000)
    job.optimize(Optimizer(), 1000)
    job.thread = 7
    job.train(source, optimizer)
    job.row(step=1, backward=30, optimizer=4, other=2001)


def test_a_backward_inside_a_backward_is_part_of_it(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained
    job.fetch(source, 10)
    job.backward(10, lambda: job.backward(20))
    job.optimize(optimizer, 4)
    job.row(backward=30, micro_batches=1)


def test_an_optimizer_inside_a_backward_is_part_of_it(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained
    job.fetch(source, 10)
    job.backward(10, lambda: job.optimize(optimizer, 20))
    job.optimize(optimizer, 4)
    job.row(step=1, backward=30, optimizer=4, other=0)


def test_without_optimizer_steps_end_at_backward_after_a_minute(job: Job) -> None:
    source = job.loader()
    for _ in range(clocks.NO_LEADER_BACKWARDS - 1):
        job.fetch(source, 10)
        job.backward(clocks.NO_LEADER_NS)
    assert job.rows == []
    for _ in range(2):
        job.fetch(source, 10)
        job.backward(30)
    assert [row["micro_batches"] for row in job.rows] == [clocks.NO_LEADER_BACKWARDS, 1]
    job.row(data_wait=10, backward=30, other=0, flags=128)
    job.train(source, Optimizer())
    job.row(step=2, flags=128)


def test_a_few_backwards_without_optimizer_are_no_training(job: Job) -> None:
    for _ in range(clocks.NO_LEADER_BACKWARDS - 1):
        job.backward(clocks.NO_LEADER_NS)
    assert job.rows == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_the_user_raises_passes_and_is_accounted(
    trained: tuple[Job, Source, Optimizer], error: type[BaseException]
) -> None:
    job, source, optimizer = trained

    def fail() -> None:
        raise error

    with pytest.raises(error):
        job.fetch(source, 100, fail)
    with pytest.raises(error):
        job.backward(200, fail)
    with pytest.raises(error):
        job.optimize(optimizer, 300, fail)
    job.train(source, optimizer)
    job.row(step=1, data_wait=110, backward=230, optimizer=304, other=1, micro_batches=2)
    assert job.notes == []


def test_the_time_of_the_boundary_belongs_to_no_step(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained

    def boundary(step: int) -> int:
        job.spend(5000)
        job.state.gc_ns += 70
        return 3 if step == 1 else 0

    job.replace(boundary=boundary)
    job.train(source, optimizer)
    job.train(source, optimizer)
    assert job.rows[2]["start"] == job.rows[1]["end"] + 5000
    job.row(step=2, data_wait=10, other=1, gc=0, flags=3)


def test_the_edge_of_a_traced_step_may_add_flags(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained
    job.replace(edge=lambda: 2)
    job.train(source, optimizer)
    job.row(flags=2)


def test_the_collectors_time_is_that_of_the_step(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained
    job.state.gc_ns += 9
    job.train(source, optimizer)
    job.row(gc=9)
    job.train(source, optimizer)
    job.row(gc=0)


def test_phases_are_told_while_they_last(job: Job) -> None:
    source, optimizer, seen = job.loader(), Optimizer(), []
    for _ in range(2):
        job.fetch(source, 1, lambda: seen.append(job.state.phase))
        seen.append(job.state.phase)
        job.backward(1, lambda: seen.append(job.state.phase))
        seen.append(job.state.phase)
        job.optimize(optimizer, 1, lambda: seen.append(job.state.phase))
        seen.append(job.state.phase)
    assert seen[6:] == [1, 2, 3, 0, 4, 0]
    assert (job.state.thread, job.state.step) == (7, 2)


def test_the_forwards_of_batches_fetched_ahead_are_known_from_the_step_before(job: Job) -> None:
    source, optimizer, after_backward = job.loader(), Optimizer(), []
    for _ in range(2):
        job.fetch(source)
        job.fetch(source)
        for _ in range(2):
            job.backward(1)
            after_backward.append(job.state.phase)
        job.optimize(optimizer)
    assert after_backward == [0, 0, 2, 0]


def test_a_full_disk_ends_the_recording_and_nothing_else(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained

    def full(record: bytes) -> None:
        raise OSError(28, "No space left on device")

    job.replace(emit=full)
    for _ in range(3):
        job.train(source, optimizer)
    with pytest.raises(ValueError, match="own"):
        job.fetch(source, 1, fail)
    assert len(job.rows) == 1
    assert job.notes == ["steps: [Errno 28] No space left on device"]


def test_a_fault_of_ours_is_noted_once_and_never_seen(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained

    def broken(batch: object) -> int:
        raise RuntimeError("ours")

    source._stepscope_use.count = broken
    job.train(source, optimizer)
    job.train(source, optimizer)
    assert job.notes == ["steps (data wait): ours"]
    assert len(job.rows) == 1


@pytest.mark.parametrize("kind", KINDS)
@given(events=st.lists(st.tuples(st.sampled_from(Script.EVENTS), st.integers(0, 1000)), max_size=60))
def test_the_parts_never_exceed_the_step_whatever_happens(kind: str, events: list[tuple[str, int]]) -> None:
    script = Script(kind)
    for event, ns in events:
        with suppress(ValueError):
            script.do(event, ns)
    rows = script.job.rows
    assert script.job.notes == []
    for index, row in enumerate(rows):
        assert row["step"] == index
        assert row["other"] >= 0
        assert row["evaluation_wait"] <= row["other"]
        assert index == 0 or row["start"] == rows[index - 1]["end"]
