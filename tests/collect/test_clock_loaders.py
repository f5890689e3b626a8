"""The step clock: which loader trains, what is its data wait, and how many samples it gave."""

import pytest

from stepscope.collect.step_clock.state import PHASE_DATA_WAIT, PHASE_OTHER

from .fake_job import Job, Optimizer, Source


@pytest.mark.parametrize("grad", [True, False])
def test_a_validation_between_two_steps_is_not_data_wait(trained: tuple[Job, Source, Optimizer], grad: bool) -> None:
    job, source, optimizer = trained
    validation = job.loader()
    job.grad = grad
    job.iterate(validation, 3)
    for _ in range(5):
        job.fetch(validation, 10)
        job.spend(20)
    job.exhaust(validation, 7)
    job.grad = True
    job.train(source, optimizer)
    job.row(data_wait=10, forward=20, evaluation_wait=53, other=1 + 53 + 100 + 7, samples=8, flags=4)


def test_gradients_of_validation_batches_make_their_loader_no_training_loader(
    trained: tuple[Job, Source, Optimizer],
) -> None:
    job, source, optimizer = trained
    validation = job.loader()
    for _ in range(3):
        job.fetch(validation, 10)
        job.backward(20)
    job.exhaust(validation)
    job.train(source, optimizer)
    job.row(data_wait=10, evaluation_wait=30, samples=8, flags=4)


def test_two_loaders_with_a_backward_each_both_train(job: Job) -> None:
    labeled, unlabeled, optimizer = job.loader(8), job.loader(64), Optimizer()
    for _ in range(2):
        for source in (labeled, unlabeled):
            job.fetch(source, 10)
            job.backward(30)
        job.optimize(optimizer, 4)
        job.row(data_wait=20, evaluation_wait=0, samples=72, flags=0)


def test_an_evaluation_on_the_training_loader_is_none_of_its_data(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained
    job.iterate(source, 2)
    for _ in range(3):
        job.fetch(source, 10)
    job.exhaust(source)
    job.train(source, optimizer)
    job.row(data_wait=10, evaluation_wait=32, samples=8, flags=4)


def test_a_fetch_of_validation_is_no_data_wait_while_it_lasts(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, _ = trained
    seen: list[int] = []
    for loader in (job.loader(), source):
        job.fetch(loader, 10, lambda: seen.append(job.state.phase))
    assert seen == [PHASE_OTHER, PHASE_DATA_WAIT]


def test_a_validation_before_the_first_step_is_not_taken_for_training(job: Job) -> None:
    source, validation, optimizer = job.loader(), job.loader(), Optimizer()
    job.grad = False
    job.fetch(validation, 10)
    job.grad = True
    job.train(source, optimizer)
    assert not validation._stepscope_use.train
    job.row(data_wait=10, evaluation_wait=10, samples=8, flags=4)


def test_an_epoch_of_one_batch_that_is_looked_ahead_of_still_trains(job: Job) -> None:
    source, optimizer = job.loader(), Optimizer()
    for _ in range(2):
        job.iterate(source, 1)
        job.fetch(source, 10)
        job.exhaust(source)
        job.spend(20)
        job.backward(30)
        job.optimize(optimizer, 4)
    job.row(data_wait=11, forward=20, flags=8 | 16)


def test_a_zipped_pair_of_loaders_trains_and_counts_one_of_them(job: Job) -> None:
    labeled, unlabeled, optimizer = job.loader(8), job.loader(64), Optimizer()
    for _ in range(2):
        job.fetch(unlabeled, 10)
        job.fetch(labeled, 5)
        job.backward(30)
        job.optimize(optimizer, 4)
    job.row(data_wait=15, evaluation_wait=0, samples=8, flags=0)


def test_the_training_loader_under_no_grad_evaluates(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained
    job.grad = False
    job.fetch(source, 100)
    job.grad = True
    job.train(source, optimizer)
    job.row(data_wait=10, evaluation_wait=100, samples=8, flags=4)


def test_without_any_loader_the_data_wait_is_not_observed(job: Job) -> None:
    optimizer = Optimizer()
    for _ in range(2):
        job.spend(20)
        job.backward(30)
        job.optimize(optimizer, 4)
    job.row(data_wait=-1, forward=20, backward=30, optimizer=4, other=0, samples=-1, flags=32)


def test_a_validation_does_not_make_an_unobserved_training_observed(job: Job) -> None:
    optimizer, validation = Optimizer(), job.loader()
    job.backward(30)
    job.optimize(optimizer, 4)
    job.fetch(validation, 10)
    job.exhaust(validation)
    job.backward(30)
    job.optimize(optimizer, 4)
    job.row(data_wait=-1, samples=-1, evaluation_wait=10, flags=32 | 4)


def test_several_steps_on_one_batch_wait_for_nothing(trained: tuple[Job, Source, Optimizer]) -> None:
    job, _, optimizer = trained
    job.backward(30)
    job.optimize(optimizer, 4)
    job.row(data_wait=0, samples=0, flags=0)


def test_a_loader_of_another_thread_is_said_to_be_that(job: Job) -> None:
    source, optimizer = job.loader(), Optimizer()
    job.thread = 8
    job.fetch(source, 500)
    job.thread = 7
    for _ in range(2):
        job.backward(30)
        job.thread = 8
        job.fetch(source, 0)
        job.thread = 7
        job.optimize(optimizer, 4)
    job.row(data_wait=-1, backward=30, flags=32 | 64)


def test_a_loader_inside_a_dataset_is_counted_once(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained
    inner = job.loader()

    def both() -> None:
        job.iterate(inner, 2)
        job.fetch(inner, 5)

    job.fetch(source, 3, both)
    job.backward(30)
    job.optimize(optimizer, 4)
    job.row(data_wait=10, evaluation_wait=0, samples=8, flags=0)


def test_a_backward_inside_a_dataset_is_part_of_the_fetch(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained
    job.fetch(source, 10, lambda: job.backward(20))
    job.backward(30)
    job.optimize(optimizer, 4)
    job.row(data_wait=30, backward=30, micro_batches=1, other=0)


def test_starting_workers_is_data_wait_and_stopping_them_is_not(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained
    job.exhaust(source, 100)
    job.iterate(source, 50)
    job.train(source, optimizer)
    job.row(data_wait=60, other=101, flags=8 | 16)


def test_samples_of_one_unknown_batch_make_the_step_unknown(trained: tuple[Job, Source, Optimizer]) -> None:
    job, source, optimizer = trained
    answers = iter([8, -(1 << 50), 8, 8])
    source._stepscope_use.count = lambda batch: next(answers)
    for _ in range(2):
        job.fetch(source)
        job.fetch(source)
        job.backward()
        job.optimize(optimizer)
    assert [row["samples"] for row in job.rows] == [8, -1, 16]
