"""The step clock: who ends a step, where optimizers take turns, threads help, or the job itself marks it."""

import gc

import pytest

from stepscope.collect.step_clock import turns
from stepscope.collect.step_clock.marks import mark_step
from stepscope.collect.step_clock.uncounted import left_out

from .fake_job import Job, Optimizer


def test_two_optimizers_make_one_step_of_the_first(job: Job) -> None:
    source, critic, generator = job.loader(), Optimizer(), Optimizer()
    for _ in range(3):
        job.fetch(source, 10)
        job.backward(30)
        job.optimize(critic, 4)
        job.backward(50)
        job.optimize(generator, 5)
    assert [row["optimizer"] for row in job.rows] == [4, 9, 9]
    job.row(step=2, data_wait=10, backward=80, micro_batches=2)


def test_when_the_leader_is_gone_another_optimizer_leads(job: Job) -> None:
    source, first, second = job.loader(), Optimizer(), Optimizer()
    job.train(source, first)
    del first
    gc.collect()
    job.train(source, second)
    job.train(source, second)
    assert [row["step"] for row in job.rows] == [0, 1, 2]


def test_a_leader_that_is_kept_but_no_longer_used_is_given_up_at_once(job: Job) -> None:
    source, first, second = job.loader(), Optimizer(), Optimizer()
    job.train(source, first)
    for _ in range(3):
        job.train(source, second)
    assert [row["micro_batches"] for row in job.rows] == [1] * 4


def test_phases_of_training_each_with_its_optimizer_lose_no_step(job: Job) -> None:
    source, kept = job.loader(), [Optimizer() for _ in range(3)]
    for optimizer in kept * 2:
        for _ in range(4):
            job.train(source, optimizer)
    assert [(row["micro_batches"], row["samples"], row["backward"]) for row in job.rows] == [(1, 8, 30)] * 24


def test_optimizers_that_take_turns_without_a_loader_lose_no_step(job: Job) -> None:
    """That the leader has changed is known one step later: both steps have their own times all the same."""
    clients = [Optimizer() for _ in range(3)]
    for client in clients * 2:
        for length in (1, 2, 3):
            job.spend(10 * length)
            job.backward(20 * length)
            job.optimize(client, 5 * length)
    expected = [(10 * length, 20 * length, 5 * length, 1) for length in (1, 2, 3)] * 6
    rows = [(row["forward"], row["backward"], row["optimizer"], row["micro_batches"]) for row in job.rows]
    assert rows == [(0, *expected[0][1:]), *expected[1:]]


def test_several_steps_of_a_critic_to_one_of_the_generator_are_the_critics(job: Job) -> None:
    source, critic, generator = job.loader(), Optimizer(), Optimizer()
    for batch in range(11):
        job.train(source, critic)
        if batch % 5 == 0:
            job.backward(50)
            job.optimize(generator, 5)
    assert [row["micro_batches"] for row in job.rows] == [1] + [2, 1, 1, 1, 1] * 2


def test_an_optimizer_that_steps_first_on_some_batches_disturbs_the_leader_once(job: Job) -> None:
    source, often, seldom = job.loader(), Optimizer(), Optimizer()
    for batch in range(12):
        job.fetch(source, 10)
        if batch % 4 == 2:
            job.backward(50)
            job.optimize(seldom, 5)
        job.backward(30)
        job.optimize(often, 4)
    assert [row["micro_batches"] for row in job.rows] == [1, 1, 1, 2, 1, 1, 2, 1, 1, 1, 2, 1]


def inner_loop(job: Job, kept: list[Optimizer] | None) -> None:
    """Three steps of an optimizer that is made for them, and is gone afterwards unless it is the one that is kept."""
    inner = Optimizer()
    for _ in range(3):
        job.backward(30)
        job.optimize(inner, 4)
    if kept is not None:
        kept[:] = [inner]


@pytest.mark.parametrize("kept", [[], None])
def test_an_optimizer_around_others_that_are_made_anew_ends_the_steps(job: Job, kept: list[Optimizer] | None) -> None:
    outer = Optimizer()
    for _ in range(5):
        for _ in range(2):
            inner_loop(job, kept)
        job.optimize(outer, 5)
    assert job.outer_loops == [((0, 5), 12)]
    assert [row["micro_batches"] for row in job.rows] == [1] * 12 + [0, 6, 6, 6]


@pytest.mark.parametrize("kept", [[], None])
def test_an_outer_optimizer_with_a_backward_ends_its_first_step_itself(job: Job, kept: list[Optimizer] | None) -> None:
    outer, source = Optimizer(), job.loader()
    for _ in range(4):
        inner_loop(job, kept)
        job.fetch(source, 10)
        job.backward(30)
        job.optimize(outer, 5)
    assert [row["micro_batches"] for row in job.rows][-2:] == [4, 4]
    assert job.outer_loops == [((0, 3), 7)]


def test_an_optimizer_made_for_each_sample_loses_no_step(job: Job) -> None:
    for _ in range(4):
        optimizer = Optimizer()
        for _ in range(3):
            job.backward(30)
            job.optimize(optimizer, 4)
    assert [(row["backward"], row["optimizer"]) for row in job.rows] == [(30, 4)] * 12


def test_training_without_backward_is_told_by_the_optimizer_alone(job: Job) -> None:
    source, optimizer = job.loader(), Optimizer()
    for number in range(turns.BARE_STEPS + 2):
        job.fetch(source, 10)
        job.optimize(optimizer, 4)
        assert len(job.rows) in (0, number + 1)
    assert [(row["step"], row["optimizer"]) for row in job.rows] == [(step, 4) for step in range(5)]
    job.row(micro_batches=0, data_wait=10, samples=8)


def test_a_single_step_before_training_is_none_of_it(job: Job) -> None:
    source, optimizer = job.loader(), Optimizer()
    job.optimize(optimizer, 4)
    job.train(source, optimizer)
    assert [(row["step"], row["micro_batches"]) for row in job.rows] == [(0, 1)]


def test_a_backward_in_another_thread_that_the_optimizers_thread_waits_for_is_its_own(job: Job) -> None:
    source, optimizer = job.loader(), Optimizer()
    for _ in range(3):
        job.fetch(source, 10)
        job.spend(20)
        job.thread = 8
        job.backward(30, lambda: job.backward(5))
        job.thread = 7
        job.optimize(optimizer, 4)
    assert [row["step"] for row in job.rows] == [0, 1, 2]
    job.row(data_wait=10, forward=20, backward=35, optimizer=4, micro_batches=1, samples=8, other=0, flags=0)


def test_training_that_goes_on_in_another_thread_is_followed_and_the_steps_between_are_told(job: Job) -> None:
    source, optimizer = job.loader(), Optimizer()
    for job.thread in (7, 9):
        for _ in range(5):
            job.train(source, optimizer)
    assert [row["step"] for row in job.rows] == list(range(8))
    assert left_out(job.clock) == [("2 optimizer steps", "other threads than the training thread made them")]


def test_where_no_optimizer_of_torch_was_made_each_backward_ends_a_step_from_the_first_on(job: Job) -> None:
    source, job.clock.has_optimizer = job.loader(), False
    for number in range(4):
        job.spend(1)
        job.fetch(source, 10)
        job.backward(30)
        assert len(job.rows) == (number + 1 if number >= 2 else 0)
    assert [(row["step"], row["data_wait"], row["micro_batches"], row["flags"]) for row in job.rows] == [
        (step, 10, 1, 128) for step in range(4)
    ]
    assert job.rows[1]["start"] == job.rows[0]["end"]


def test_a_backward_or_two_before_any_optimizer_was_made_are_no_steps(job: Job) -> None:
    source, job.clock.has_optimizer = job.loader(), False
    for _ in range(2):
        job.backward(30)
    job.clock.has_optimizer = True
    job.train(source, Optimizer())
    assert [(row["step"], row["micro_batches"]) for row in job.rows] == [(0, 1)]


def test_optimizers_that_step_inside_backward_end_a_step_with_it(job: Job) -> None:
    source, optimizers = job.loader(), [Optimizer(), Optimizer()]

    def step_both() -> None:
        for optimizer in optimizers:
            job.optimize(optimizer, 5)

    for _ in range(3):
        job.fetch(source, 10)
        job.backward(30, step_both)
    assert [(row["backward"], row["optimizer"], row["flags"]) for row in job.rows] == [(40, 0, 128)] * 3


def test_the_job_may_mark_the_ends_of_steps_and_then_nothing_else_ends_one(job: Job) -> None:
    source, optimizer = job.loader(), Optimizer()
    for _ in range(3):
        job.train(source, optimizer)
        job.train(source, optimizer)
        mark_step(job.clock)
    assert [row["micro_batches"] for row in job.rows] == [1, 1, 2, 2]


def test_marks_make_steps_of_a_training_that_shows_nothing_else(job: Job) -> None:
    source = job.loader()
    for _ in range(3):
        job.fetch(source, 10)
        job.spend(40)
        mark_step(job.clock)
    assert [row["step"] for row in job.rows] == [0, 1, 2]
    job.row(data_wait=10, forward=0, other=40, samples=8, flags=0)


def test_without_any_other_event_the_first_mark_begins_the_first_step(job: Job) -> None:
    for _ in range(3):
        job.spend(40)
        mark_step(job.clock)
    assert [row["other"] for row in job.rows] == [40, 40]
