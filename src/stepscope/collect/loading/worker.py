"""What a DataLoader worker does: waits for indices, fetches, puts; its feeder thread serialises and sends.

Only attributes of the two queues of this worker are replaced, in the worker itself.
"""

from __future__ import annotations

import collections
import inspect
import time

from .fetching import without_our_frames
from .lane import Lane, cpu_ns
from .spans import INDEX_WAIT, PUT, SEND, SERIALIZE

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .process import Loading

__all__ = ["worker_hook"]

_now = time.monotonic_ns


def worker_hook(original: Callable[..., None], loading: Loading, kinds: Any) -> Callable[..., None]:
    """`original`, torch's `_worker_loop`, timed. It is pickled by name, so that a spawned worker finds its own hook.

    `kinds` is torch's _DatasetKind, which makes the fetcher.
    """

    names = list(inspect.signature(original).parameters)

    def _worker_loop(*args: Any, **kwargs: Any) -> None:
        try:
            _watch({**dict(zip(names, args)), **kwargs}, loading, kinds)
        except Exception as error:
            loading.fail(error)
        try:
            original(*args, **kwargs)
        except BaseException as error:
            without_our_frames(error)
            raise

    _worker_loop.__module__, _worker_loop.__qualname__ = original.__module__, original.__qualname__
    _worker_loop.__doc__, _worker_loop.__wrapped__ = original.__doc__, original  # type: ignore[attr-defined]
    return _worker_loop


def _watch(given: dict[str, Any], loading: Loading, kinds: Any) -> None:
    """Have the queues and the fetchers of this worker timed. Raises what a torch of another build makes it raise."""
    about = {"worker": given["worker_id"], "workers": given["num_workers"], "seed": given["base_seed"]}
    spans = loading.open("worker", about)
    if spans is None:
        return
    lane = Lane(spans, 0)
    weights: dict[int, int] = {}  # of the batches that are recorded and have not been sent
    kinds.create_fetcher = staticmethod(_fetcher_hook(kinds.create_fetcher, given["dataset"], lane))
    index_queue, data_queue = given["index_queue"], given["data_queue"]
    index_queue.get = _timed_get(index_queue.get, lane, weights)
    _Feeder(lane, weights).watch(data_queue)


def _fetcher_hook(original: Callable[..., Any], dataset: Any, lane: Lane) -> Callable[..., Any]:
    """`original`, which makes fetchers: those of this worker's own `dataset` are timed in `lane`."""

    def create_fetcher(*args: Any, **kwargs: Any) -> Any:
        try:
            fetcher = original(*args, **kwargs)
        except BaseException as error:
            without_our_frames(error)
            raise
        if getattr(fetcher, "dataset", None) is dataset:
            fetcher._stepscope_lane = lane
        return fetcher

    return create_fetcher


def _timed_get(get: Callable[..., Any], lane: Lane, weights: dict[int, int]) -> Callable[..., Any]:
    """`get` of the index queue: the worker has put its last batch when it is called, and has a next when it returns."""
    write, waiting = lane.spans.write, 0  # since when the worker waits: torch asks again every five seconds

    def timed_get(*args: Any, **kwargs: Any) -> Any:
        nonlocal waiting
        if not waiting:
            waiting = _now()
            if lane.ended:
                write(PUT, lane.ended, waiting - lane.ended, -1, lane.batch, 0, lane.epoch, lane.stood_for)
                lane.ended = 0
        task = get(*args, **kwargs)
        begin, waiting = waiting, 0
        if type(task) is tuple:
            if lane.enter(task[0]):
                weight = weights[task[0]] = lane.weight()
                write(INDEX_WAIT, begin, _now() - begin, -1, task[0], 0, lane.epoch, weight)
        elif task is not None:
            lane.epoch += 1  # persistent workers begin again
        return task

    return timed_get


class _Feeder:
    """The feeder thread of the data queue: from a batch's leaving the buffer to its last byte in the pipe."""

    __slots__ = ("_batch", "_cpu", "_lane", "_start", "_weight", "_weights")

    def __init__(self, lane: Lane, weights: dict[int, int]) -> None:
        self._lane, self._weights = lane, weights
        self._batch = self._weight = self._start = self._cpu = 0

    def watch(self, queue: Any) -> None:
        """Have the thread of `queue`, which has not started, tell what it does. Raises AttributeError."""
        if queue._thread is None:
            send, lock = queue._send_bytes, queue._wlock
            queue._buffer = _Buffer(self)
            queue._send_bytes = lambda data: self._send(send, data)
            if lock is not None:
                queue._wlock = _Lock(self, lock)

    def took(self, item: Any) -> None:
        """An item left the buffer; it is serialised next."""
        self._weight = self._weights.pop(item[0], 0) if type(item) is tuple and type(item[0]) is int else 0
        if self._weight:
            self._batch, self._start, self._cpu = item[0], _now(), cpu_ns()

    def serialized(self) -> None:
        """The item has become bytes; they are sent when the other workers let them."""
        if self._weight:
            end, lane = _now(), self._lane
            lane.spans.write(
                SERIALIZE,
                self._start,
                end - self._start,
                cpu_ns() - self._cpu,
                self._batch,
                0,
                lane.epoch,
                self._weight,
            )
            self._start = end

    def _send(self, send: Callable[[Any], None], data: Any) -> None:
        send(data)
        if self._weight:
            lane = self._lane
            lane.spans.write(
                SEND, self._start, _now() - self._start, -1, self._batch, 0, lane.epoch, self._weight, count=len(data)
            )


class _Buffer(collections.deque):  # type: ignore[type-arg]
    """The buffer of a queue."""

    def __init__(self, feeder: _Feeder) -> None:
        super().__init__()
        self._feeder = feeder

    def popleft(self) -> Any:
        item = super().popleft()
        self._feeder.took(item)
        return item


class _Lock:
    """The lock for writing into a queue's pipe, which all workers share."""

    __slots__ = ("_lock", "acquire", "release")

    def __init__(self, feeder: _Feeder, lock: Any) -> None:
        def acquire() -> Any:
            feeder.serialized()
            return lock.acquire()

        self._lock, self.acquire, self.release = lock, acquire, lock.release
