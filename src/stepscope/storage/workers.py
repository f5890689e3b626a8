"""Where ranks are opened: in this process, in others on this machine, or on a cluster; any Executor will do.

A worker may die, most often because memory ran out. Then the ranks that it and its neighbors had in work are tried
again, each alone in a fresh process, so the one that needs too much is found; what kills three workers is given up.
"""

import pickle
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from stepscope.core.errors import BadInput

__all__ = ["Crew", "Died", "Workers", "carry_out", "in_this_process", "using"]

S = TypeVar("S")
T = TypeVar("T")

_SLICE = 0.1  # seconds
RETRIES = 2  # alone, in a fresh process: a machine that is short of memory for a moment has it back by then


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """An executor that was started; `at_once` limits what it is given before something is done (None: no limit)."""

    executor: Executor
    at_once: int | None = None


class Start(Protocol):
    """Starts an executor for so many ranks, of so many bytes of JSON; `apart`: not in this process, a worker died."""

    def __call__(self, ranks: int, size: int, *, apart: bool) -> AbstractContextManager[Crew]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Where ranks are opened; `died` are the errors by which an executor says that a worker died."""

    start: Start
    died: tuple[type[BaseException], ...] = (BrokenExecutor,)


@dataclass(frozen=True, slots=True)
class Died:
    """What was given up, because it killed so many workers."""

    times: int


def carry_out(
    task: Callable[[S], T], items: Mapping[int, S], workers: Workers, *, size: int
) -> Iterator[tuple[int, T | Died]]:
    """Yield what `task` gives for each item, with its number, as they are done; `size` is their bytes together.

    An error of `task` is raised here, BadInput if all workers die. Ending the iteration early stops the workers.
    """
    waiting = deque(items)
    suspects: list[int] = []
    while waiting:
        with workers.start(len(waiting), size, apart=bool(suspects)) as crew:
            suspects += yield from _round(task, items, waiting, crew, workers.died)
    succeeded = len(suspects) < len(items)
    for number, place in enumerate(suspects):
        result = _alone(task, items[place], workers)
        succeeded |= not isinstance(result, Died)
        if not succeeded and number >= RETRIES:
            raise BadInput("--jobs", "every process that was started died", next_step="Try `--jobs 1`.")
        yield place, result


def using(executor: Executor) -> Workers:
    """Workers that are an executor of the caller's, who also shuts it down."""

    @contextmanager
    def start(ranks: int, size: int, *, apart: bool) -> Iterator[Crew]:
        yield Crew(executor=executor)

    return Workers(start=start)


def in_this_process() -> Workers:
    """One rank after another, without any other process."""
    return using(_Here())


class _Here(Executor):
    """Does what it is given at once, and raises its error at once. Results are packed and unpacked as on the way from
    another process: otherwise a small table would keep the text of the large one alive that it was cut from.
    """

    def submit(self, fn: Callable[..., T], /, *args: object, **kwargs: object) -> Future[T]:
        future: Future[T] = Future()
        future.set_result(pickle.loads(pickle.dumps(fn(*args, **kwargs))))
        return future


def _round(
    task: Callable[[S], T],
    items: Mapping[int, S],
    waiting: deque[int],
    crew: Crew,
    died: tuple[type[BaseException], ...],
) -> Generator[tuple[int, T], None, list[int]]:
    """Take from `waiting` and yield results until all is done or a worker died; return what was in work then."""
    done: SimpleQueue[Future[T]] = SimpleQueue()
    running: dict[Future[T], int] = {}
    suspects: list[int] = []
    while (waiting or running) and not suspects:
        while waiting and done.empty() and (crew.at_once is None or len(running) < crew.at_once):
            try:
                future = crew.executor.submit(task, items[waiting[0]])
            except died:
                break  # those in work say so too
            running[future] = waiting.popleft()
            future.add_done_callback(done.put)
        if not running:
            return [waiting.popleft()]
        future = _next(done)
        place = running.pop(future)
        try:
            result = future.result()
        except died:
            suspects.append(place)
        else:
            yield place, result
    for future, place in running.items():
        if future.done() and not future.cancelled() and future.exception() is None:
            yield place, future.result()
        else:
            suspects.append(place)
    return suspects


def _next(done: SimpleQueue[Future[T]]) -> Future[T]:
    """The next that is done. It waits in slices: Polars keeps Ctrl-C from ending a longer wait."""
    while True:
        with suppress(Empty):
            return done.get(timeout=_SLICE)


def _alone(task: Callable[[S], T], item: S, workers: Workers) -> T | Died:
    """Try again, one process at a time."""
    for _ in range(RETRIES):
        with workers.start(1, 0, apart=True) as crew:
            try:
                done: SimpleQueue[Future[T]] = SimpleQueue()
                crew.executor.submit(task, item).add_done_callback(done.put)
                return _next(done).result()
            except workers.died:
                continue
    return Died(1 + RETRIES)
