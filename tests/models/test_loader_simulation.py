"""The simulation against what can be computed by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.models.loader_simulation import Case, simulate

MANY = 1000.0  # cores


def case(
    *, workers: int = 1, cpu: float = 0, other: float = 0, feed: float = 0, step: float = 10, batches: int = 120,
    **columns: float,
) -> Case:  # fmt: skip
    fetch = np.tile([float(cpu), float(other)], (batches, 1))
    known = {"step_cpu": step, "cores": MANY, "prefetch": 2, **columns}
    return Case(workers=workers, fetch=fetch, feed=feed, step=step, **known)  # type: ignore[arg-type]


def interval(one: Case) -> float:
    return float(simulate([one]).intervals([one])[0])


def test_one_worker_is_the_longer_of_fetch_and_step() -> None:
    assert interval(case(cpu=30)) == pytest.approx(30)
    assert interval(case(cpu=4)) == pytest.approx(10)


def test_workers_divide_a_fetch_up_to_the_step() -> None:
    assert [interval(case(workers=n, cpu=60)) for n in (1, 2, 3, 6, 8)] == pytest.approx([60, 30, 20, 10, 10])


def test_serializing_goes_on_beside_the_next_fetch() -> None:
    assert interval(case(cpu=30, feed=20)) == pytest.approx(30)
    assert interval(case(cpu=30, feed=50)) == pytest.approx(50)


def test_work_cannot_be_done_faster_than_the_cores() -> None:
    law = (30 + 6 + 10) / 2
    assert interval(case(workers=4, cpu=30, feed=6, cores=2)) == pytest.approx(law, rel=0.03)


def test_a_part_of_the_cores_stays_unused_where_threads_change_places() -> None:
    assert interval(case(workers=4, cpu=30, feed=6, cores=2, kept=0.8)) == pytest.approx(23 / 0.8, rel=0.03)
    assert interval(case(workers=1, cpu=30, cores=2, kept=0.8)) == pytest.approx(30)


def test_waiting_takes_no_core() -> None:
    assert interval(case(workers=4, other=80, cores=1, step=20, step_cpu=0.0)) == pytest.approx(20)
    assert interval(case(workers=2, other=80, cores=1)) == pytest.approx(40)


def test_threads_that_wait_for_each_other_need_their_cores_at_once() -> None:
    """A program that always computes leaves each thread of a step 2/3 of two cores, both at once 4/9 of the time."""
    single = case(step=10, step_cpu=20, cores=2, foreign=1)
    assert interval(single) == pytest.approx(10 / (2 / 3) ** 2, rel=0.01)
    assert interval(case(step=10, step_cpu=20, cores=2)) == pytest.approx(10, rel=0.01)


def test_other_programs_take_their_part() -> None:
    assert interval(case(cpu=30, cores=1, step_cpu=0.0, foreign=1)) == pytest.approx(60)


def test_busy_cores_make_work_dearer_and_free_ones_cheaper() -> None:
    contended = case(workers=1, cpu=30, step=30, contention=0.5, at=1.0)
    assert interval(contended) == pytest.approx(45, rel=0.01)
    measured = case(workers=1, cpu=45, step=45, contention=0.5, at=2.0)
    assert interval(measured) == pytest.approx(45)
    assert interval(case(cpu=45, step=45, step_cpu=0.0, contention=0.5, at=2.0)) == pytest.approx(45)
    assert interval(case(cpu=45, step=1, step_cpu=0.0, contention=0.5, at=2.0)) == pytest.approx(30)


def test_batches_are_taken_in_order() -> None:
    """Every fourth batch takes 40: all are of worker 0 of two, and worker 1 cannot help."""
    slow = case(workers=2, batches=80, step=1)
    slow.fetch[::4, 0] = 40
    assert interval(slow) == pytest.approx(10, rel=0.05)
    ends = simulate([slow]).ends[0]
    assert (np.diff(ends) >= 1 - 1e-9).all()


def test_a_worker_that_keeps_the_lock_hands_over_between_its_fetches() -> None:
    """One worker: a step begins when the next fetch is over, or after `hold`, and then takes its 10."""
    assert interval(case(cpu=30, hold=5)) == pytest.approx(30)
    assert float(simulate([case(cpu=30, hold=5)]).held[0]) == pytest.approx(5)
    kept = case(cpu=4, hold=100)
    assert interval(kept) == pytest.approx(10), "batches lie ready, and the worker is idle"


def test_waits_for_the_lock_end_with_the_fetch_or_the_hold() -> None:
    """Two workers of 60: a batch each 30, of which both hand over while the other, or they themselves, fetch on."""
    for hold, waits in ((0, 0), (7, 7), (20, 20)):
        course = simulate([case(workers=2, cpu=60, step=10, hold=hold)])
        assert float(course.held[0]) == pytest.approx(waits, rel=0.05)


def test_cases_do_not_touch_each_other() -> None:
    cases = [case(workers=n, cpu=25, feed=3, cores=2.0, other=5) for n in (1, 2, 5, 16)]
    together = simulate(cases).ends
    for one, ends in zip(cases, together, strict=True):
        assert np.array_equal(simulate([one]).ends[0], ends)


times = st.floats(min_value=0, max_value=100)


@settings(max_examples=40, deadline=None)
@given(cpu=times, other=times, feed=times, step=st.floats(min_value=1, max_value=100), workers=st.integers(1, 6))
def test_more_workers_are_never_slower_where_nothing_is_shared(
    cpu: float, other: float, feed: float, step: float, workers: int
) -> None:
    few, more = (interval(case(workers=n, cpu=cpu, other=other, feed=feed, step=step)) for n in (workers, workers + 1))
    assert more <= few * 1.02 + 1e-6


@settings(max_examples=40, deadline=None)
@given(
    cpu=times, feed=times, step=st.floats(min_value=1, max_value=100), workers=st.integers(1, 6),
    cores=st.floats(min_value=1, max_value=8),
)  # fmt: skip
def test_no_work_is_lost_and_none_is_free(cpu: float, feed: float, step: float, workers: int, cores: float) -> None:
    one = case(workers=workers, cpu=cpu, feed=feed, step=step, cores=cores)
    ends, batches = simulate([one]).ends[0], len(one.fetch)
    assert (np.diff(ends) > 0).all()
    assert ends[-1] >= batches * max(step, (cpu + feed + step) / cores, cpu / workers) - 1e-3
    ahead = workers * one.prefetch
    assert ends[-1] <= (batches + ahead) * (cpu + feed + step) + 1e-3, "at worst, one thing after the other"
