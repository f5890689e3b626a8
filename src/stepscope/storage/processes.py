"""Processes of this machine that open ranks. They start afresh (polars must not be forked) and end with this one."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread, current_thread, main_thread
from time import monotonic
from typing import Any, TypeVar

from stepscope.core.memory import collect_seldom
from stepscope.storage.workers import Crew, Workers, in_this_process

__all__ = ["processes"]

T = TypeVar("T")

SMALL = 100 << 20  # bytes of JSON that one process reads as quickly as two do, which take half a second each to start
PER_RANK = 5 << 20  # bytes that could be read in the time that an empty rank takes
GRACE = 2.0  # seconds for idle processes to end; one started while another died waits for ever to hand over its result
_THREADS = "POLARS_MAX_THREADS"


def processes(count: int, *, cores: int, small: int = SMALL) -> Workers:
    """At most so many processes, which share `cores`; one rank, or less work than `small` bytes, needs no other."""

    @contextmanager
    def start(ranks: int, size: int, *, apart: bool) -> Iterator[Crew]:
        needed = min(count, ranks)
        if not apart and (needed <= 1 or size + ranks * PER_RANK < small):
            with in_this_process().start(ranks, size, apart=False) as crew:
                yield crew
            return
        yield from _pool(needed, max(1, cores // needed))

    return Workers(start=start)


def _pool(count: int, threads: int) -> Iterator[Crew]:
    others = set(active_children())
    executor = _Pool(count, threads)
    grace = 0.0
    try:
        yield Crew(executor=executor, at_once=count + 1)  # one more than are in work, so that nobody waits for it
        grace = GRACE
    finally:
        manager: Any = executor._executor_manager_thread
        executor.shutdown(wait=False, cancel_futures=True)
        end = monotonic() + grace
        started = set(active_children()) - others
        for process in started:
            process.join(max(0.0, end - monotonic()))
            process.kill()
        for process in started:
            process.join(GRACE)
        if manager is not None:
            manager.join(GRACE)  # it closes pipes, and what is started meanwhile could be given one of them


class _Pool(ProcessPoolExecutor):
    """Starts its processes with few threads, and deaf to Ctrl-C, which this process acts upon for all.

    It starts all of them with the first task. By itself it would start one with each task, beside a thread that closes
    the pipes as soon as any process dies: one that is started just then finds none, and says so to the user.
    """

    def __init__(self, count: int, threads: int) -> None:
        super().__init__(count, mp_context=get_context("spawn"), initializer=_begin)
        self._safe_to_dynamically_spawn_children = False
        self._threads = threads

    def submit(self, fn: Callable[..., T], /, *args: object, **kwargs: object) -> Future[T]:
        with _few_threads(self._threads), _later_interrupt():
            return super().submit(fn, *args, **kwargs)


@contextmanager
def _few_threads(count: int) -> Iterator[None]:
    """Processes started meanwhile use so many threads, unless the user says how many."""
    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = before or str(count)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_THREADS]


@contextmanager
def _later_interrupt() -> Iterator[None]:
    """Hold off Ctrl-C, which processes started meanwhile never get: one half started would be known to nobody."""
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    main = current_thread() is main_thread()  # which acts upon what reaches any thread, and alone may change that
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number)) if main else None
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        if main:
            signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


def _begin() -> None:
    """In a worker: be quick to start, and end as soon as the process that started it has ended, however it did."""
    collect_seldom()
    parent = parent_process()
    if parent is not None:
        Thread(target=_watch, args=(parent.sentinel,), daemon=True).start()


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
