"""What a DataLoader worker does: waits for indices, fetches, puts; its feeder thread serialises and sends.

Only attributes of the two queues of this worker are replaced, in the worker itself.
"""

from __future__ import annotations

import collections
import inspect
import time

from .fetching import FETCH_CODE, without_our_frames
from .lane import Lane, cpu_ns
from .spans import INDEX_WAIT, PUT, SEND, SERIALIZE

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .process import Loading
    from .spans import SpanFile

__all__ = ["worker_hook"]

_now = time.monotonic_ns


def worker_hook(original: Callable[..., None], loading: Loading, kinds: Any) -> Callable[..., None]:
    """`original`, torch's `_worker_loop`, timed. It is pickled by name, so that a spawned worker finds its own hook.

    `kinds` is torch's _DatasetKind, which makes the fetcher.
    """

    names = list(inspect.signature(original).parameters)

    def _worker_loop(*args: Any, **kwargs: Any) -> None:
        sampler = None
        try:
            lane = _watch({**dict(zip(names, args)), **kwargs}, loading, kinds)
            sampler = loading.sample_lines(lane, FETCH_CODE) if lane is not None else None
        except Exception as error:
            loading.fail(error)
        try:
            original(*args, **kwargs)
        except BaseException as error:
            without_our_frames(error)
            raise
        finally:
            if sampler is not None:
                sampler.close()

    _worker_loop.__module__, _worker_loop.__qualname__ = original.__module__, original.__qualname__
    _worker_loop.__doc__, _worker_loop.__wrapped__ = original.__doc__, original  # type: ignore[attr-defined]
    return _worker_loop


def _watch(given: dict[str, Any], loading: Loading, kinds: Any) -> _Working | None:
    """Have the queues and the fetchers of this worker timed. Raises what a torch of another build makes it raise."""
    about = {"worker": given["worker_id"], "workers": given["num_workers"], "seed": given["base_seed"]}
    spans = loading.open("worker", about)
    if spans is None:
        return None
    lane = _Working(spans, given["index_queue"])
    kinds.create_fetcher = staticmethod(_fetcher_hook(kinds.create_fetcher, given["dataset"], lane))
    _Feeder(lane).watch(given["data_queue"])
    return lane


class _Working(Lane):
    """The lane of a worker. Its index queue is timed only before and after a batch that is recorded.

    `weights`: of the batches that are recorded and have not been sent, by number.
    """

    __slots__ = ("_get", "_queue", "_waiting", "weights")
    times_modules = True  # no model runs here

    def __init__(self, spans: SpanFile, index_queue: Any) -> None:
        super().__init__(spans, 0)
        self._queue, self._get, self._waiting = index_queue, index_queue.get, 0
        self.weights: dict[int, int] = {}
        self.epoch = -1  # each begins with a fetcher
        self._time_queue()

    def fetching(self) -> bool:
        if self.live:
            return True
        self.seen += 1
        if self.seen >= self.due:
            self._time_queue()
        return False

    def _time_queue(self) -> None:
        self._queue.get = self._timed_get

    def _timed_get(self, *args: Any, **kwargs: Any) -> Any:
        """`get` of the index queue: the worker has put its last batch when it is called, and has a next when it
        returns."""
        if not self._waiting:  # torch asks again every five seconds
            self._waiting = _now()
            if self.ended:
                self.spans.write(PUT, self.ended, self._waiting - self.ended, -1, self.batch, 0, self.epoch,
                                 self.stood_for)  # fmt: skip
                self.ended = 0
        if self.seen < self.due:
            self._waiting = 0
            vars(self._queue).pop("get", None)
            return self._get(*args, **kwargs)
        task = self._get(*args, **kwargs)
        begin, self._waiting = self._waiting, 0
        if type(task) is tuple and self.enter(task[0]):
            weight = self.weights[task[0]] = self.weight()
            self.spans.write(INDEX_WAIT, begin, _now() - begin, -1, task[0], 0, self.epoch, weight)
        return task


def _fetcher_hook(original: Callable[..., Any], dataset: Any, lane: _Working) -> Callable[..., Any]:
    """`original`, which makes fetchers: those of this worker's own `dataset` are timed in `lane`, one an epoch."""

    def create_fetcher(*args: Any, **kwargs: Any) -> Any:
        try:
            fetcher = original(*args, **kwargs)
        except BaseException as error:
            without_our_frames(error)
            raise
        if getattr(fetcher, "dataset", None) is dataset:
            fetcher._stepscope_lane = lane
            lane.epoch += 1
        return fetcher

    return create_fetcher


class _Feeder:
    """The feeder thread of the data queue: from a batch's leaving the buffer to its last byte in the pipe.

    `weight` is that of the batch at hand, 0 where it is not recorded.
    """

    __slots__ = ("_batch", "_cpu", "_lane", "_start", "weight")

    def __init__(self, lane: _Working) -> None:
        self._lane = lane
        self._batch = self._start = self._cpu = self.weight = 0

    def watch(self, queue: Any) -> None:
        """Have the thread of `queue`, which has not started, tell what it does. Raises AttributeError."""
        if queue._thread is None:
            send, lock = queue._send_bytes, queue._wlock
            queue._buffer = _Buffer(self, self._lane.weights)
            queue._send_bytes = lambda data: self.sending(send, data) if self.weight else send(data)
            if lock is not None:
                queue._wlock = _Lock(self, lock)

    def took(self, item: Any) -> None:
        """An item left the buffer; it is serialised next."""
        self.weight = self._lane.weights.pop(item[0], 0) if type(item) is tuple and type(item[0]) is int else 0
        if self.weight:
            self._batch, self._start, self._cpu = item[0], _now(), cpu_ns()

    def serialized(self) -> None:
        """The item has become bytes; they are sent when the other workers let them."""
        end, lane = _now(), self._lane
        lane.spans.write(
            SERIALIZE, self._start, end - self._start, cpu_ns() - self._cpu, self._batch, 0, lane.epoch, self.weight
        )
        self._start = end

    def sending(self, send: Callable[[Any], None], data: Any) -> None:
        """Write the bytes of the item, and that it has been sent."""
        send(data)
        lane = self._lane
        lane.spans.write(
            SEND, self._start, _now() - self._start, -1, self._batch, 0, lane.epoch, self.weight, count=len(data)
        )


class _Buffer(collections.deque):  # type: ignore[type-arg]
    """The buffer of a queue."""

    def __init__(self, feeder: _Feeder, recorded: dict[int, int]) -> None:
        super().__init__()
        self._feeder, self._recorded = feeder, recorded

    def popleft(self) -> Any:
        item = _popleft(self)
        self._feeder.weight = 0  # the one before may have failed to be serialised
        if self._recorded:
            self._feeder.took(item)
        return item


_popleft = collections.deque.popleft


class _Lock:
    """The lock for writing into a queue's pipe, which all workers share."""

    __slots__ = ("_lock", "acquire", "release")

    def __init__(self, feeder: _Feeder, lock: Any) -> None:
        def acquire() -> Any:
            if feeder.weight:
                feeder.serialized()
            return lock.acquire()

        self._lock, self.acquire, self.release = lock, acquire, lock.release
