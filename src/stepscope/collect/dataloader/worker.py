"""What a DataLoader worker does: waits for indices, fetches, puts; its feeder thread serializes and sends.

Only attributes of the two queues of this worker and of its fetcher are replaced, in the worker itself, and those that
a batch passes only while one is recorded.
"""

from __future__ import annotations

import inspect
import sys
import time

from ..guards import own_errors
from ..warning_frames import without_our_frames
from .batch_recorder import BatchRecorder, cpu_ns
from .batch_sizes import tensors
from .fetching import FETCH_CODE, count_fetches
from .scheduler import process_began, process_threads
from .spans import END, INDEX_WAIT, PUT, SEND, SERIALIZE, SET_UP, START

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .process import Loading
    from .spans import SpanFile

__all__ = ["Feeder", "worker_hook"]

_now = time.monotonic_ns


def worker_hook(original: Callable[..., None], loading: Loading, kinds: Any) -> Callable[..., None]:
    """`original`, torch's `_worker_loop`, timed. It is pickled by name, so that a spawned worker finds its own hook.

    `kinds` is torch's _DatasetKind, which makes the fetcher.
    """

    names = list(inspect.signature(original).parameters)

    def _worker_loop(*args: Any, **kwargs: Any) -> None:
        recorder = sampler = None
        entered = _now()
        try:
            recorder = _watch({**dict(zip(names, args)), **kwargs}, loading, kinds)
            if recorder is not None:
                recorder.starts(loading.born or process_began(), entered)
            sampler = loading.sample_lines(recorder, FETCH_CODE) if recorder is not None else None
        except own_errors() as error:
            loading.fail(error)
        try:
            original(*args, **kwargs)
        except BaseException as error:
            without_our_frames(error)
            raise
        finally:
            _end(recorder, sampler)

    _worker_loop.__module__, _worker_loop.__qualname__ = original.__module__, original.__qualname__
    _worker_loop.__doc__, _worker_loop.__wrapped__ = original.__doc__, original  # type: ignore[attr-defined]
    return _worker_loop


def _end(recorder: _Working | None, sampler: Any) -> None:
    """The loop of the worker has ended. Never raises."""
    try:
        if sampler is not None:
            sampler.close()
        if recorder is not None:
            recorder.spans.write(END, _now(), 0, -1, -1, 0, recorder.epoch)
    except own_errors():
        return


def _watch(given: dict[str, Any], loading: Loading, kinds: Any) -> _Working | None:
    """Have the queues and the fetchers of this worker timed. Raises what a torch of another build makes it raise."""
    about = {"worker": given["worker_id"], "workers": given["num_workers"], "seed": given["base_seed"]}
    spans = loading.open("worker", about)
    if spans is None:
        return None
    recorder = _Working(spans, given["index_queue"])
    recorder.feeder = Feeder(recorder, given["data_queue"])
    kinds.create_fetcher = staticmethod(_fetcher_hook(kinds.create_fetcher, given["dataset"], recorder))
    return recorder


class _Working(BatchRecorder):
    """The recorder of a worker. Its index queue is timed only before and after a batch that is recorded.

    `weights`: of the batches that are recorded and have not been sent, by number.
    """

    __slots__ = ("_entered", "_entered_cpu", "_get", "_queue", "_waiting", "feeder", "weights")
    feeder: Feeder
    times_modules = True  # no model runs here

    def __init__(self, spans: SpanFile, index_queue: Any) -> None:
        super().__init__(spans, 0)
        self._queue, self._get, self._waiting = index_queue, index_queue.get, 0
        self.weights: dict[int, int] = {}
        self.epoch = -1  # each begins with a fetcher
        self._entered = self._entered_cpu = 0
        self._time_queue()

    def starts(self, began: int, entered: int) -> None:
        """The process began, 0 where that is not known, and its loop has been entered: it sets itself up now."""
        if 0 < began <= entered:
            self.spans.write(START, began, entered - began, time.process_time_ns(), -1, 0, 0)
        self._entered, self._entered_cpu = entered, cpu_ns()

    def fetching(self) -> bool:
        if self.live:
            return True
        self.seen += 1
        if self.seen >= self.due:
            self._time_queue()
        return False

    def uncounted(self) -> int:
        return 1 if self.live else max(1, self.due - self.seen)

    def _time_queue(self) -> None:
        self._queue.get = self._timed_get

    def _timed_get(self, *args: Any, **kwargs: Any) -> Any:
        """`get` of the index queue: the worker has put its last batch when it is called, and has a next when it
        returns."""
        timed = self._asks()
        task = self._get(*args, **kwargs)
        if timed:
            self._was_given(task)
        return task

    def _asks(self) -> bool:
        """The worker asks for a batch; is it timed? Never raises."""
        try:
            if not self._waiting:  # torch asks again every five seconds
                self._waiting = _now()
                self._tell_last(self._waiting)
            if self.seen >= self.due:
                return True
        except own_errors():
            self.due = sys.maxsize
        self._waiting = 0
        vars(self._queue).pop("get", None)
        return False

    def _tell_last(self, now: int) -> None:
        """Write what the worker did until now."""
        if self.live:  # the data set had ended: torch passed over this batch
            self.live = False
            self.seen -= 1
            self.weights.pop(self.batch, None)
        if self._entered:
            self.spans.write(SET_UP, self._entered, now - self._entered, cpu_ns() - self._entered_cpu, -1, 0, 0)
            self._entered = 0
        if self.ended:
            self.spans.write(PUT, self.ended, now - self.ended, -1, self.batch, 0, self.epoch, self.stood_for)
            self.ended = 0

    def _was_given(self, task: Any) -> None:
        """The worker has what it waited for. Never raises."""
        try:
            begin, self._waiting = self._waiting, 0
            if type(task) is tuple and self.enter(task[0]):
                weight = self.weights[task[0]] = self.weight()
                self.feeder.expect()
                self.spans.write(INDEX_WAIT, begin, _now() - begin, -1, task[0], 0, self.epoch, weight)
        except own_errors():
            self.live, self.due = False, sys.maxsize


def _fetcher_hook(original: Callable[..., Any], dataset: Any, recorder: _Working) -> Callable[..., Any]:
    """`original`, which makes fetchers: those of this worker's own `dataset` are timed in `recorder`, one an epoch."""

    def create_fetcher(*args: Any, **kwargs: Any) -> Any:
        try:
            fetcher = original(*args, **kwargs)
        except BaseException as error:
            without_our_frames(error)
            raise
        try:
            if getattr(fetcher, "dataset", None) is dataset:
                recorder.epoch += 1
                count_fetches(fetcher, recorder)
        except own_errors():
            vars(fetcher).pop("fetch", None)  # it is torch's own again
        return fetcher

    return create_fetcher


class Feeder:
    """The feeder thread of the data queue, from taking up a batch to its last byte in the pipe.

    It is timed only while a batch that is recorded is on its way. Its loop looks up two things anew for each batch: the
    pickler in the module of the queue, and `_send_bytes` of the pipe.
    """

    __slots__ = ("_module", "_pickler", "_pipe", "_recorder", "_threads", "_timed", "_told")

    def __init__(self, recorder: _Working, queue: Any) -> None:
        """Raises AttributeError for a queue of another kind."""
        self._recorder, self._pipe = recorder, queue._send_bytes.__self__
        self._told, self._threads = False, 0
        self._module: Any = sys.modules[type(queue).__module__]
        self._pickler = self._module._ForkingPickler
        self._timed = type(self._pickler.__name__, (self._pickler,), {"dumps": staticmethod(self._dumps)})

    def expect(self) -> None:
        """A batch that is recorded will come."""
        self._module._ForkingPickler = self._timed

    def _dumps(self, item: Any, protocol: int | None = None) -> Any:
        """An item becomes bytes; they are sent when the other workers let them."""
        weight = self._announced(item)
        if not weight:
            return self._pickler.dumps(item, protocol)
        start, cpu = _now(), cpu_ns()
        try:
            data = self._pickler.dumps(item, protocol)
        finally:
            self._module._ForkingPickler = self._pickler
            if self._recorder.weights:  # looked at last: another batch may have been announced meanwhile
                self.expect()
        self._dumped(item[0], weight, start, cpu)
        return data

    def _announced(self, item: Any) -> int:
        """How many batches an item stands for that is recorded, 0 if it is not. Never raises: torch would go on without
        the batch, and the job wait for it for ever."""
        recorder = self._recorder
        try:
            weight = recorder.weights.pop(item[0], 0) if type(item) is tuple and type(item[0]) is int else 0
            self._threads = 0
            if weight and not self._told:
                self._told, self._threads = True, process_threads()
                recorder.spans.tell({"kind": "batch", "tensors": tensors(item[1])})
            return weight
        except own_errors():
            self._module._ForkingPickler = self._pickler
            return 0

    def _dumped(self, batch: int, weight: int, start: int, cpu: int) -> None:
        """An item has become bytes, since `start`. Never raises."""
        try:
            recorder, end = self._recorder, _now()
            used = cpu_ns() - cpu
            recorder.spans.write(
                SERIALIZE, start, end - start, used, batch, 0, recorder.epoch, weight, count=self._threads
            )
            self._send_next(batch, weight, end)
        except own_errors():
            return

    def _send_next(self, batch: int, weight: int, start: int) -> None:
        """Have the next sending timed: that of this batch."""
        pipe, recorder, send = self._pipe, self._recorder, self._pipe._send_bytes

        def _send_bytes(data: Any) -> None:
            vars(pipe).pop("_send_bytes", None)
            send(data)
            recorder.spans.write(SEND, start, _now() - start, -1, batch, 0, recorder.epoch, weight, count=len(data))

        pipe._send_bytes = _send_bytes
