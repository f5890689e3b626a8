"""What the main process does for its batches: sends indices, waits for data, takes it from the queue.

With num_workers=0 it makes the batches itself, and their fetches are timed as in a worker.
"""

from __future__ import annotations

import sys
import time

from ..guards import own_errors
from ..warning_frames import hidden_from_warnings, without_our_frames
from .batch_recorder import BatchRecorder, cpu_ns
from .fetching import count_fetches, counted
from .overhead_budget import OverheadBudget, Reserve
from .spans import PIN, RECEIVE, SEND_INDEX, START_WORKERS, STOP_WORKERS, WAIT

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .process import Loading
    from .spans import SpanFile

    Method = Callable[..., Any]

__all__ = ["known_hook", "multiple_hooks", "pin_hook", "single_hook"]

BATCH_COST = 3.0
"""Time of all spans of a batch in the main process, in times of what is measured: writing one of them."""

_SMOOTH = 4  # recorded batches: a burst of ready ones is no pace
_UNKNOWN_NS = 1_000_000_000  # until the second batch is asked for
_TIMED = ("_try_get_data", "_try_put_index")
_now = time.monotonic_ns


class Receiver(BatchRecorder):
    """The main side of an iterator with workers. `arrived`: when the bytes at hand came, 0 for none; `got`: the batch
    that came last; `previous`: when the one that was recorded last was asked for; `pace`: time from one batch to the
    next, smoothed; `pins`: another thread takes them out of the queue."""

    __slots__ = ("arrived", "arrived_cpu", "got", "pace", "pins", "previous", "recv_bytes")

    def __init__(self, spans: SpanFile, iterator: int) -> None:
        super().__init__(spans, iterator)
        self.budget, self.due = OverheadBudget(spans.share / 2, Reserve(0), 0), 0  # beside what workers take
        self.arrived = self.arrived_cpu = self.pace = self.previous = 0
        self.got = -1
        self.pins = False
        self.recv_bytes: Any = None  # of the queue's pipe, while ours takes its place
        self.live = True  # the first indices are sent before the first batch is asked for

    def give_up(self) -> None:
        """Record no more batches: something went wrong."""
        self.live, self.due = False, sys.maxsize

    def asked(self, now: int) -> None:
        """The training process asks for a batch that is recorded."""
        if self.previous:
            interval = (now - self.previous) // max(1, self.seen - 1 - self.last)
            self.pace += (interval - self.pace) // (_SMOOTH if self.pace else 1)
        self.previous = now

    def receiving(self, recv_bytes: Method) -> Method:
        """`recv_bytes` of the queue's pipe, which is called once something is in it."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            if self.live or self.pins:
                self.arrived, self.arrived_cpu = _now(), cpu_ns()
            return recv_bytes(*args, **kwargs)

        return timed

    def received(self, batch: Any, weight: int) -> None:
        """What arrived has been made a batch again."""
        if type(batch) is int and self.arrived:
            begin = self.arrived
            self.spans.write(
                RECEIVE, begin, _now() - begin, cpu_ns() - self.arrived_cpu, batch, self.iterator, self.epoch, weight
            )
        self.arrived = 0


class Maker(BatchRecorder):
    """An iterator without workers. There may be one for each batch, so the batches that went by in it since one was
    recorded count for the next of the same loader."""

    __slots__ = ()

    def follow(self) -> None:
        """Its loader is known now."""
        whole, detail = (0, 0) if self.loader is None else self.spans.unrecorded.pop(self.loader, (0, 0))
        self.last -= whole
        self.detail_last -= detail
        self.slowdown = self.spans.slowdowns.setdefault(self.loader, self.slowdown)

    def __del__(self) -> None:
        try:
            made = self.seen + self.passing() - 1
            self.budget.earn(made - max(self.last, -1))
            self.detail_budget.earn(made - max(self.detail_last, -1))
            if self.loader is not None:
                self.spans.unrecorded[self.loader] = made - self.last, made - self.detail_last
        except own_errors():
            return  # Python ends


@hidden_from_warnings
def single_hook(original: Method, loading: Loading) -> Method:
    """`original`, the `__init__` of an iterator without workers: its fetcher gets a recorder."""

    def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        original(self, loader, *args, **kwargs)
        recorder: Any = loading.recorder(Maker)
        if recorder is not None:
            try:
                loading.made(recorder, self, loader)
                recorder.follow()
                self._stepscope_recorder = recorder
                count_fetches(self._dataset_fetcher, recorder)
            except own_errors() as error:
                loading.fail(error)

    return _like(original, __init__)


def known_hook(original: Method, loading: Loading) -> Method:
    """`original`, the `__iter__` of torchdata's loader, whose `state_dict` may have made the iterator before the loader
    was known."""

    def __iter__(self: Any) -> Any:
        iterator = original(self)
        recorder = getattr(iterator, "_stepscope_recorder", None)
        if recorder is not None and recorder.loader is None:
            try:
                loading.learnt(recorder, iterator, self)
            except own_errors() as error:
                loading.fail(error)
        return iterator

    return _like(original, __iter__)


def multiple_hooks(iterator: Any, loading: Loading) -> dict[str, Method]:
    """New methods for torch's iterator with workers, by name."""
    return {
        "__init__": _init_hook(iterator.__init__, loading),
        "_reset": _reset_hook(iterator._reset),
        "_shutdown_workers": _shutdown_hook(iterator._shutdown_workers),
    }


@hidden_from_warnings
def _init_hook(original: Method, loading: Loading) -> Method:
    def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        recorder: Any = loading.recorder(Receiver)
        self._stepscope_recorder = recorder
        if recorder is None:
            original(self, loader, *args, **kwargs)
            return
        begin, cpu = _now(), cpu_ns()
        self._try_put_index = _timed_put(self, recorder)
        try:
            original(self, loader, *args, **kwargs)
        except BaseException as error:
            without_our_frames(error)
            raise
        finally:
            del self._try_put_index
        try:
            recorder.spans.write(START_WORKERS, begin, _now() - begin, cpu_ns() - cpu, -1, recorder.iterator, 0)
            _watch(self, recorder)
            loading.made(recorder, self, loader)
        except own_errors() as error:
            loading.fail(error)

    return _like(original, __init__)


def _watch(iterator: Any, recorder: Receiver) -> None:
    """Have an iterator's batches counted, and timed where one is due."""
    queue, kind = iterator._worker_result_queue, type(iterator)
    queue._stepscope_recorder, recorder.pins = recorder, iterator._pin_memory
    if recorder.pins:
        queue._recv_bytes = recorder.receiving(queue._recv_bytes)
    iterator._next_data = counted(
        iterator, kind._next_data, _next_data_hook(kind._next_data), recorder, takes_index=False
    )


def _reset_hook(original: Method) -> Method:
    def _reset(self: Any, loader: Any, first_iter: bool = False, **options: Any) -> None:
        recorder = self.__dict__.get("_stepscope_recorder")
        if recorder is not None and not first_iter:
            recorder.epoch += 1
        original(self, loader, first_iter, **options)

    return _like(original, _reset)


def _next_data_hook(original: Method) -> Method:
    """The wait of the training process for a batch, from asking to having it, if it is recorded."""

    def _next_data(self: Any) -> Any:
        recorder = self._stepscope_recorder
        begin = _asks(self, recorder)
        if not begin:
            return original(self)
        try:
            data = original(self)
        except BaseException as error:
            recorder.live = False
            recorder.seen -= isinstance(error, StopIteration)  # the end of an epoch is no batch
            raise
        finally:
            if not recorder.pins:
                self._worker_result_queue._recv_bytes = recorder.recv_bytes
            for name in _TIMED:  # each holds the iterator
                self.__dict__.pop(name, None)
        _has_waited(self, recorder, begin)
        return data

    return _next_data


def _asks(iterator: Any, recorder: Receiver) -> int:
    """The training process asks for a batch: since when, if the wait is recorded, else 0. Never raises."""
    try:
        if not recorder.enter(-1):
            return 0
        recorder.asked(begin := _now())
        queue = None if recorder.pins else iterator._worker_result_queue
        recorder.recv_bytes = getattr(queue, "_recv_bytes", None)
        receiving = recorder.receiving(recorder.recv_bytes)
        iterator._try_get_data, iterator._try_put_index = _timed_get(iterator, recorder), _timed_put(iterator, recorder)
        if queue is not None:
            queue._recv_bytes = receiving
        return begin
    except own_errors():
        recorder.give_up()
        for name in _TIMED:
            iterator.__dict__.pop(name, None)
        return 0


def _has_waited(iterator: Any, recorder: Receiver, begin: int) -> None:
    """It has the batch that it asked for. Never raises."""
    try:
        batch = iterator._rcvd_idx - 1 if getattr(iterator, "_in_order", True) else recorder.got
        end, cpu = _now(), cpu_ns()
        recorder.spans.write(WAIT, begin, end - begin, -1, batch, recorder.iterator, recorder.epoch, recorder.weight())
        recorder.next_due(BATCH_COST, recorder.pace or _UNKNOWN_NS)
        recorder.measured(cpu_ns() - cpu)
    except own_errors():
        recorder.give_up()


def _timed_get(iterator: Any, recorder: Receiver) -> Method:
    original = type(iterator)._try_get_data

    def _try_get_data(*args: Any, **kwargs: Any) -> Any:
        result = original(iterator, *args, **kwargs)
        try:
            if result[0]:
                recorder.got = result[1][0]
                if not recorder.pins:
                    recorder.received(recorder.got, recorder.weight())
        except own_errors():
            recorder.give_up()
        return result

    return _try_get_data


def _timed_put(iterator: Any, recorder: Receiver) -> Method:
    original = type(iterator)._try_put_index

    def _try_put_index() -> None:
        begin, batch = _now(), iterator._send_idx
        original(iterator)
        _sent(iterator, recorder, begin, batch)

    return _try_put_index


def _sent(iterator: Any, recorder: Receiver, begin: int, batch: int) -> None:
    """Indices were sent, if there were any. Never raises."""
    try:
        again = not recorder.seen and iterator._rcvd_idx  # it passes over what was read before it was resumed
        if iterator._send_idx != batch and not again:
            weight = max(1, recorder.weight())
            recorder.spans.write(
                SEND_INDEX, begin, _now() - begin, -1, batch, recorder.iterator, recorder.epoch, weight
            )
    except own_errors():
        recorder.give_up()


def _shutdown_hook(original: Method) -> Method:
    """The end of all workers, which is waited for. Called again when the iterator goes, maybe while Python ends."""

    def _shutdown_workers(self: Any) -> None:
        recorder, begin = self.__dict__.get("_stepscope_recorder"), 0
        if recorder is not None and not self.__dict__.get("_shutdown", True):
            try:
                begin, cpu = _now(), cpu_ns()
            except own_errors():
                recorder = None
        try:
            original(self)
        except BaseException as error:
            without_our_frames(error)
            raise
        if begin:
            try:
                end = _now()
                recorder.spans.write(
                    STOP_WORKERS, begin, end - begin, cpu_ns() - cpu, -1, recorder.iterator, recorder.epoch
                )
            except own_errors():
                return

    return _like(original, _shutdown_workers)


# -- the thread that copies into pinned memory ---------------------------------------------------------------------


def pin_hook(original: Method) -> Method:
    """`original`, torch's `_pin_memory_loop`, which gets batches from the workers' queue and puts them into another."""

    def _pin_memory_loop(in_queue: Any, out_queue: Any, *args: Any, **kwargs: Any) -> None:
        pinning = _Pinning(in_queue, out_queue)
        original(pinning, pinning, *args, **kwargs)

    return _like(original, _pin_memory_loop)


class _Pinning:
    """Stands for both queues of the pin-memory thread: what is between `get` and `put` is the copy."""

    __slots__ = ("_batch", "_cpu", "_in_queue", "_out_queue", "_start")

    def __init__(self, in_queue: Any, out_queue: Any) -> None:
        self._in_queue, self._out_queue = in_queue, out_queue
        self._batch, self._start, self._cpu = -1, 0, 0

    def get(self, *args: Any, **kwargs: Any) -> Any:
        item = self._in_queue.get(*args, **kwargs)
        self._start = 0
        try:
            recorder = self._in_queue.__dict__.get("_stepscope_recorder")
            if recorder is not None and type(item[0]) is int and item[0] % recorder.stride == 0:
                recorder.received(item[0], recorder.stride)
                self._batch, self._start, self._cpu = item[0], _now(), cpu_ns()
        except own_errors():
            self._start = 0
        return item

    def put(self, *args: Any, **kwargs: Any) -> None:
        start, self._start = self._start, 0
        if start:
            try:
                recorder, cpu = self._in_queue._stepscope_recorder, cpu_ns() - self._cpu
                recorder.spans.write(
                    PIN, start, _now() - start, cpu, self._batch, recorder.iterator, recorder.epoch, recorder.stride
                )
            except own_errors():
                recorder = None
        self._out_queue.put(*args, **kwargs)


def _like(original: Method, hook: Method) -> Method:
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(hook, name, getattr(original, name, None))
    hook.__wrapped__ = original  # type: ignore[attr-defined]
    return hook
