"""A trial in which neither side waits for the other: what training takes alone, and what the loader takes alone.

It goes round in three parts, so that a machine that becomes slower or faster is no part's fault. For some steps
training goes on as ever. Then it stands still while batches are taken from the loader in a row. Then the workers are
left to fill their queues, and training gets batches that lie ready: its own pace, which no loader can exceed. They are
given in containers of their own, as a script may take its batch to pieces.

What was measured is a fact, "calibration", after each round, with all that are over. Its `rounds` have `usual`: a row
(wait, wall time, CPU time of all threads) of each batch that came as ever, the times from having it to asking for the
next; `taken`: how long each batch took to come; `fed`: rows as of `usual`; and `fed_ns`: how long these took in all, to
the end of the device's work. Times in ns; `bytes` is the size of a batch that is fed. `device` says that there is one,
`over` that no further round comes. `here` is how long batches take that the training process makes itself, where it has
several threads for operators and the workers have one each; none where it was not tried.
"""

from __future__ import annotations

import copy
import itertools
import sys
import time

from .hooks import dressed

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["FACT", "Calibration", "next_hook"]

FACT = "calibration"
"""Kind of the fact."""

ROUNDS = 4
USUAL, TAKEN, FED = 12, 8, 12  # batches of a round that are measured
_WARM = 20  # batches before the first round: caches, clocks and autotuning
_UNTIMED = 2  # batches that are fed before: the first step has waited
_LONGEST_S = 60.0  # then no further round is begun
_MOST_KEPT = 8  # batches: of different sizes, where they differ
_MOST_BYTES = 1 << 24  # of all that are kept, but for the first: containers have little shared memory (Docker 64 MiB)
_DEEP = 4  # containers in containers that are looked into
_MOST_FILLING_S = 15.0
_QUIET_S = 0.5  # of rest, where the loader does not tell what its workers still have to do
_FEEDING_S = 0.1  # of rest: a batch is counted when its worker begins to hand it over
_POLL_S = 0.01
HERE = 40  # batches that the training process makes; the first is not timed: threads begin, caches are cold
_LONGEST_HERE_S = 2.0  # then it makes no further one
_now, _cpu = time.monotonic_ns, time.process_time_ns


class Calibration:
    """The course of the trial. `learn(row)` gets the fact. All calls come from the training thread.

    It is about the first loader that is known to train: another, read in turn with it, is left alone.
    """

    def __init__(self, learn: Callable[[dict[str, Any]], None]) -> None:
        self._learn = learn
        self._use: Any = None
        self._began = _now()
        self._left = _WARM  # batches that are still to come in this part
        self._kept: list[Any] = []  # what is fed; none: training goes on as ever
        self._begun = (0, 0, 0)  # the wait for the batch that training has, and both clocks when it got it; 0: none
        self._rows: list[tuple[int, int, int]] = []
        self._timed_from = 0
        self._rounds: list[dict[str, Any]] = []
        self._over = False

    def concerns(self, use: Any) -> bool:
        """Whether the trial is about the loader with this use."""
        if self._use is None and use is not None and use.train:
            self._use = use
        return use is not None and use is self._use

    def next(self, iterator: Any, original: Callable[[Any], Any]) -> Any:
        """The next batch for training. Raises what the loader raises."""
        if self._over:
            return original(iterator)
        self._measure()
        if not self._left:
            if self._kept:
                self._end_round(iterator)
            else:
                self._begin_feeding(iterator, original)
        before = _now()
        batch = self._ready() if self._kept else original(iterator)
        self._left -= 1
        now = _now()
        self._begun = (now - before, now, _cpu())
        return batch

    def _measure(self) -> None:
        """Training asks for another batch: what it did with the last one is over."""
        waited, at, at_cpu = self._begun
        if at:
            self._rows.append((waited, _now() - at, _cpu() - at_cpu))
            self._begun = (0, 0, 0)

    def _begin_feeding(self, iterator: Any, original: Callable[[Any], Any]) -> None:
        """Take batches in a row, those that lie ready and some more; then let all come to rest."""
        taken: list[int] = []
        _await_device()
        begin = _now()
        try:
            for _ in range(_ahead(iterator) + TAKEN):
                self._keep(original(iterator))
                end = _now()
                taken.append(end - begin)
                begin = end
        except StopIteration:  # the next request for a batch ends the epoch
            if not self._kept:
                raise
        _let_fill(iterator)
        size = sum(map(_bytes, self._kept)) // len(self._kept)
        self._rounds.append({"usual": self._rows[-USUAL:], "taken": taken[-TAKEN:], "bytes": size})
        self._rows, self._left = [], _UNTIMED + FED

    def _keep(self, batch: Any) -> None:
        size = sum(map(_bytes, self._kept)) + _bytes(batch)
        if not self._kept or (len(self._kept) < _MOST_KEPT and size <= _MOST_BYTES):
            self._kept.append(batch)

    def _ready(self) -> Any:
        if self._left == FED:
            _await_device()
            self._timed_from = _now()
        return _unpacked(self._kept[self._left % len(self._kept)])

    def _end_round(self, iterator: Any) -> None:
        device = _await_device()
        self._rounds[-1].update(fed=self._rows[_UNTIMED:], fed_ns=_now() - self._timed_from)
        self._kept, self._rows, self._left = [], [], _ahead(iterator) + USUAL
        self._over = len(self._rounds) == ROUNDS or _now() - self._began > _LONGEST_S * 1e9
        fact = {"kind": FACT, "rounds": [*self._rounds], "device": device}
        self._learn({**fact, "over": False})  # what comes next is the data set's code where it never ran
        if self._over:
            self._learn({**fact, "over": True, "here": [] if device else _made_here(iterator)})


def next_hook(calibration: Calibration, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`original`, the `__next__` of a loader's iterator; batches come from `calibration` if the loader trains."""

    def __next__(self: Any) -> Any:
        if calibration.concerns(getattr(self, "_stepscope_use", None)):
            return calibration.next(self, original)
        return original(self)

    return dressed(__next__, original)


def _ahead(iterator: Any) -> int:
    """Batches that its workers may have made already."""
    return int(getattr(iterator, "_num_workers", 0) or 0) * int(getattr(iterator, "_prefetch_factor", 0) or 0)


def _await_device() -> bool:
    """Wait for the end of all work of the device, so that it is in the times; false: there is none."""
    cuda: Any = getattr(sys.modules["torch"], "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return False
    if not cuda.is_current_stream_capturing():  # to wait would end the capture
        cuda.synchronize()
    return True


def _let_fill(iterator: Any) -> None:
    """Wait until the workers have made all batches that were ordered from them: then they stand still."""
    queue = getattr(iterator, "_worker_result_queue", None)
    if queue is None:
        return  # no workers
    until = _now() + int(_MOST_FILLING_S * 1e9)
    try:
        while _ready_of(iterator) < iterator._tasks_outstanding and _now() < until:
            time.sleep(_POLL_S)
        time.sleep(_FEEDING_S)
    except (AttributeError, NotImplementedError, OSError):  # another version of torch, macOS
        time.sleep(_QUIET_S)


def _ready_of(iterator: Any) -> int:
    """Batches that workers have made: in their queue, in that of a thread that pins them, or early ones."""
    queues = {id(queue): queue for queue in (iterator._worker_result_queue, iterator._data_queue)}
    early = sum(len(task) > 1 for task in iterator._task_info.values())
    return early + sum(int(queue.qsize()) for queue in queues.values())


def _made_here(iterator: Any) -> list[int]:
    """Times of batches that this process makes; none where its operators have no more threads than those of a worker,
    or its samples cannot be chosen by their index."""
    torch = sys.modules["torch"]
    if not _ahead(iterator) or torch.get_num_threads() < 2:
        return []
    times: list[int] = []
    try:
        from torch.utils.data._utils.fetch import _MapDatasetFetcher

        if iterator._dataset_kind != 0:  # a stream: who asks for its samples takes them
            return []
        fetcher = _MapDatasetFetcher(
            iterator._dataset, iterator._auto_collation, iterator._collate_fn, iterator._drop_last
        )
        until = _now() + _LONGEST_HERE_S * 1e9
        for index in itertools.islice(iter(iterator._index_sampler), HERE):
            begin = _now()
            fetcher.fetch(index)  # type: ignore[no-untyped-call]
            times.append(_now() - begin)
            if _now() > until:
                break
    except Exception:
        return []  # a data set may need what only a worker has
    return times[1:]


def _unpacked(batch: Any, deep: int = _DEEP) -> Any:
    """The same tensors in other lists, dictionaries and objects."""
    if type(batch) is dict and deep:
        return {key: _unpacked(value, deep - 1) for key, value in batch.items()}
    if type(batch) in (list, tuple) and deep:
        return type(batch)(_unpacked(value, deep - 1) for value in batch)
    if isinstance(batch, tuple) or hasattr(batch, "element_size"):
        return batch
    try:
        return copy.copy(batch)
    except Exception:
        return batch  # as in any script that reuses a batch


def _bytes(batch: Any, deep: int = _DEEP) -> int:
    """Of the tensors in a batch, as far as they are seen."""
    if hasattr(batch, "element_size") and hasattr(batch, "numel"):
        return int(batch.element_size() * batch.numel())
    values = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, (list, tuple)) else ()
    return sum(_bytes(value, deep - 1) for value in values) if deep else 0
