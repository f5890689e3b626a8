"""No collection of the job's garbage begins in a thread of ours; to the job the collector is as it was."""

import gc
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stepscope.collect.fields import compiled
from stepscope.collect.own_threads import COLLECTIONS_WAIT

OBJECTS = 5_000  # several collections' worth at Python's threshold of 700


class Ending:
    """Is part of a cycle, so a collection ends it, and tells in which thread."""

    def __init__(self, ended: list[int]) -> None:
        self.itself, self._ended = self, ended

    def __del__(self) -> None:
        self._ended.append(threading.get_ident())


@pytest.fixture(autouse=True)
def usual_thresholds() -> Iterator[None]:
    if compiled is None:
        pytest.skip("the compiled hooks are not built")
    before, enabled = gc.get_threshold(), gc.isenabled()
    gc.set_threshold(700, 10, 10)
    gc.enable()
    yield
    gc.set_threshold(*before)
    if not enabled:
        gc.disable()


def ended_in(work: Callable[[], object]) -> tuple[int, list[int]]:
    """The thread that did `work`, and those in which garbage ended that was there before."""
    ended: list[int] = []
    gc.collect()
    Ending(ended)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return thread.ident or 0, list(ended)


def many_objects() -> list[Any]:
    return [{"number": number} for number in range(OBJECTS)]


def test_without_it_a_second_thread_ends_what_the_job_made() -> None:
    thread, ended = ended_in(many_objects)
    assert ended == [thread]


def test_no_collection_begins_in_a_thread_of_ours() -> None:
    def work() -> None:
        with COLLECTIONS_WAIT:
            many_objects()

    _, ended = ended_in(work)
    assert ended == []


def test_collections_begin_again_afterwards() -> None:
    ended: list[int] = []
    with COLLECTIONS_WAIT, COLLECTIONS_WAIT:
        Ending(ended)
        many_objects()
        assert ended == []
    kept = many_objects()
    assert ended == [threading.get_ident()]
    assert len(kept) == OBJECTS


def test_the_job_sees_the_collector_as_it_was() -> None:
    gc.collect()
    before = gc.get_count()
    with COLLECTIONS_WAIT:
        assert gc.isenabled()
        assert gc.get_threshold() == (700, 10, 10)
    assert gc.get_count()[1:] == before[1:]
    assert before[0] <= gc.get_count()[0] <= before[0] + 50


def test_a_collection_that_the_job_asks_for_is_made() -> None:
    ended: list[int] = []
    Ending(ended)
    with COLLECTIONS_WAIT:
        gc.collect()
        assert len(ended) == 1
    assert 0 <= gc.get_count()[0] < 700


def test_a_child_that_is_forked_meanwhile_collects_as_ever() -> None:
    with COLLECTIONS_WAIT:
        child = os.fork()
        if not child:
            os._exit(0 if 0 <= gc.get_count()[0] < 700 else 9)
        assert os.waitpid(child, 0)[1] == 0
    assert 0 <= gc.get_count()[0] < 700
