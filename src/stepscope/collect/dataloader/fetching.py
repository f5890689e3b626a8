"""Times of one batch: its fetch, its samples and its collation, in a worker or in the main process.

Each clock costs as much as the rest of a span, so a batch is recorded only as often as that stays cheap, and its
samples only in some of the recorded batches; a span says how many it stands for. Nothing of the user's is changed: in
a recorded batch the fetcher, which is torch's own, is given another dataset to ask, which asks the user's, and calls
are watched from outside.
"""

from __future__ import annotations

import copy
import sys
import time
import weakref

from .. import facts
from ..guards import own_errors
from ..warning_frames import hidden_from_warnings, without_our_frames
from .batch_recorder import BATCH_COST, BatchRecorder, cpu_ns, process_ns
from .calls import Calls
from .scheduler import core_wait
from .spans import COLLATE, FETCH

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["FETCH_CODE", "count_fetches", "counted", "fetch_hook"]

FAILED = 1  # flag: the fetch raised, or the iterable ended in it
_MOST_DATASETS = 16  # one in another

_NO_LANE: Any = None
_now = time.monotonic_ns


@hidden_from_warnings
def fetch_hook(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`original`, the `fetch` of one of torch's fetchers: timed where the fetcher has a `_stepscope_recorder`."""

    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        recorder = self.__dict__.get("_stepscope_recorder")
        begun = None if recorder is None else _begin(self, recorder)
        try:
            data = original(self, possibly_batched_index)
        except BaseException as error:
            if begun is not None:
                _end(recorder, self, begun, possibly_batched_index, FAILED)
            without_our_frames(error)
            raise
        if begun is not None:
            _end(recorder, self, begun, possibly_batched_index, 0)
        return data

    fetch.__name__, fetch.__qualname__, fetch.__doc__ = "fetch", original.__qualname__, original.__doc__
    fetch.__module__, fetch.__wrapped__ = original.__module__, original  # type: ignore[attr-defined]
    return fetch


def count_fetches(fetcher: Any, recorder: BatchRecorder) -> None:
    """Have a fetcher of torch counted in `recorder`, and timed where a batch is due."""
    kind = type(fetcher)
    fetcher._stepscope_recorder, fetcher._stepscope_calls = recorder, Calls(recorder)
    fetcher.fetch = counted(fetcher, kind.fetch, fetch_hook(kind.fetch), recorder, takes_index=True)


@hidden_from_warnings
def counted(
    owner: Any, plain: Callable[..., Any], hook: Callable[..., Any], recorder: BatchRecorder, *, takes_index: bool
) -> Callable[..., Any]:
    """A function to be an attribute of `owner`, in the place of its method `plain`: it calls that, and `hook` where the
    recorder has to look at a batch. It takes the batch's indices, or nothing.

    Between two long samples nothing of ours is in the caches, and each line that is run then costs a microsecond: so
    batches that are not recorded only pass through here, with a fixed number of arguments: with any number of them it
    took 1.6 instead of 1.1 µs. Nothing keeps the owner alive by it.
    """
    this, left, ahead = weakref.ref(owner), 1, 1
    if recorder is not None:
        recorder.passing = lambda: ahead - left

    def look(*given: Any) -> Any:
        nonlocal left, ahead
        try:
            recorder.passed(ahead - 1)
            return hook(this(), *given)
        finally:
            left = ahead = _uncounted(recorder)

    def count_fetch(possibly_batched_index: Any) -> Any:
        nonlocal left
        left -= 1
        try:
            return plain(this(), possibly_batched_index) if left > 0 else look(possibly_batched_index)
        except BaseException as error:
            without_our_frames(error)
            raise

    def count() -> Any:
        nonlocal left
        left -= 1
        try:
            return plain(this()) if left > 0 else look()
        except BaseException as error:
            without_our_frames(error)
            raise

    return count_fetch if takes_index else count


def _uncounted(recorder: BatchRecorder) -> int:
    """As `recorder.uncounted`. Never raises."""
    try:
        return recorder.uncounted()
    except own_errors():
        return sys.maxsize


FETCH_CODE = counted(fetch_hook, fetch_hook, fetch_hook, _NO_LANE, takes_index=True).__code__
"""The code that every fetch goes through: what it calls makes a batch."""


def _begin(fetcher: Any, recorder: BatchRecorder) -> Any:
    """What is to be put back after a fetch that is recorded, and when it began; else None. Never raises."""
    held: dict[str, Any] = {}
    try:
        if not recorder.fetching():
            return None
        before = cpu_ns()
        held = _prepare(fetcher, recorder)
        calls = _prepare_calls(fetcher, recorder) if len(held) > 1 else None
        recorder.core_wait = core_wait()
        recorder.process = process_ns()
        start, cpu = recorder.begin, recorder.begin_cpu = _now(), cpu_ns()
        recorder.detail_cost = cpu - before
        return held, calls, start, cpu
    except own_errors():
        recorder.live, recorder.due = False, sys.maxsize
        fetcher.__dict__.update(held)
        return None


def _end(recorder: BatchRecorder, fetcher: Any, begun: Any, index: Any, flags: int) -> None:
    """A fetch that is recorded has ended. Never raises."""
    held, calls, start, cpu = begun
    try:
        ended = _put_back(fetcher, held, calls)
        _close(recorder, fetcher, ended, index, start, cpu, flags)
    except own_errors():
        recorder.live, recorder.due = False, sys.maxsize
        fetcher.__dict__.update(held)


def _prepare(fetcher: Any, recorder: BatchRecorder) -> dict[str, Any]:
    """Have the collation timed, and the samples if they are due; returns the attributes to be put back."""
    held = {"collate_fn": fetcher.collate_fn}
    recorder.collate_start = recorder.written = recorder.watch_cost = 0
    recorder.slowed = False
    try:
        fetcher.collate_fn = _timed_collate(recorder, fetcher.collate_fn)
        if recorder.seen > recorder.detail_due:
            name = "dataset_iter" if "dataset_iter" in fetcher.__dict__ else "dataset"
            held[name] = getattr(fetcher, name)
            setattr(fetcher, name, _watched(recorder, fetcher))
    except own_errors():
        recorder.detail_due = sys.maxsize  # a dataset that cannot be stood for: its batches are timed as a whole
        fetcher.__dict__.update(held)
    return held


def _prepare_calls(fetcher: Any, recorder: BatchRecorder) -> Calls | None:
    """Have the calls timed that the data sets behind the fetcher's make; None where they cannot be looked at."""
    try:
        calls: Calls = fetcher.__dict__.get("_stepscope_calls") or Calls(recorder)
        calls.begin(_behind(fetcher))
    except own_errors():
        recorder.detail_due = sys.maxsize
        return None
    return calls


def _put_back(fetcher: Any, held: dict[str, Any], calls: Calls | None) -> tuple[int, int, int]:
    """Have a fetch that has ended timed no more; when it ended, and the CPU time of the thread and the process then."""
    ended = _now(), cpu_ns(), process_ns()
    fetcher.__dict__.update(held)
    if calls is not None:
        calls.end()
    return ended


def _behind(fetcher: Any) -> list[Any]:
    """The user's data sets: that of the fetcher, and those that it holds."""
    datasets: list[Any] = []
    waiting = [fetcher.dataset if "dataset_iter" in fetcher.__dict__ else _real(fetcher.dataset)]
    while waiting and len(datasets) < _MOST_DATASETS:
        dataset = waiting.pop()
        datasets.append(dataset)
        inner = getattr(dataset, "__dict__", {})
        held = [inner.get("dataset"), *(inner["datasets"] if isinstance(inner.get("datasets"), list) else ())]
        waiting += [_real(one) for one in held if one is not None]
    return datasets


def _real(dataset: Any) -> Any:
    """The user's data set, behind what stands for it."""
    return dataset.watched if isinstance(dataset, _Samples) else dataset


@hidden_from_warnings
def _timed_collate(recorder: BatchRecorder, collate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def collate_fn(data: Any) -> Any:
        recorder.collate_start, recorder.collate_cpu = _now(), cpu_ns()
        return collate(data)

    return collate_fn


def _close(
    recorder: BatchRecorder, fetcher: Any, ended: tuple[int, int, int], index: Any, start: int, cpu: int, flags: int
) -> None:
    """Write the spans of a fetch that has ended, and settle when the next is due. Never raises."""
    try:
        (end, cpu_end, process), begin, names = ended, cpu_ns(), len(recorder.names)
        used = cpu_end - cpu
        waited = max(-1, core_wait() - recorder.core_wait) if recorder.core_wait >= 0 else -1
        size = len(index) if isinstance(index, (list, tuple)) else 1
        weight, write = recorder.weight(), recorder.spans.write
        recorder.ended, recorder.stood_for = end, weight
        at = (recorder.batch, recorder.iterator, recorder.epoch, weight)
        if recorder.collate_start:
            name = recorder.names.get(id(fetcher.collate_fn)) or _collate_name(recorder, fetcher.collate_fn)
            write(COLLATE, recorder.collate_start, end - recorder.collate_start, cpu_end - recorder.collate_cpu, *at,
                  process - recorder.process, name, size, flags)  # fmt: skip
        name = _dataset_name(recorder, fetcher.dataset)
        write(FETCH, start, end - start, used, *at, waited, name, size, flags)
        if not flags:
            recorder.slowdown.add(used, size, recorder.slowed)
        recorder.next_due(BATCH_COST, used)
        if len(recorder.names) == names:  # telling names takes many times as long, once
            recorder.measured(cpu_ns() - begin)
        if recorder.pending or recorder.written:
            recorder.straighten(start, end - start, used)
            recorder.detail_cost += begin - cpu_end
            recorder.next_detail_due(used)
        elif flags and recorder.detail_last < recorder.seen - 1:
            recorder.detail_last += 1  # the data set had ended: no sample of this batch was passed over
        recorder.tell_sizes()
    except own_errors():
        recorder.due = sys.maxsize  # recording this loader fails: it is left alone
        recorder.live = False


# -- what stands for the user's dataset ----------------------------------------------------------------------------


def _watched(recorder: BatchRecorder, fetcher: Any) -> Any:
    """What the fetcher is to ask in place of its dataset, or of the iterator of that."""
    if "dataset_iter" in fetcher.__dict__:
        return _Stream(recorder, fetcher.dataset_iter, _dataset_name(recorder, fetcher.dataset))
    return _in_place_of(recorder, fetcher.dataset, 0)


def _in_place_of(recorder: BatchRecorder, dataset: Any, depth: int) -> Any:
    """torch's own Subset and ConcatDataset are copied, with what they hold watched; any other dataset is watched."""
    module = sys.modules.get("torch.utils.data.dataset")
    if depth < 8 and module is not None and type(dataset) is module.Subset:
        shadow = copy.copy(dataset)
        shadow.dataset = _in_place_of(recorder, dataset.dataset, depth + 1)
        return shadow
    if depth < 8 and module is not None and type(dataset) is module.ConcatDataset:
        shadow = copy.copy(dataset)
        shadow.datasets = [_in_place_of(recorder, inner, depth + 1) for inner in dataset.datasets]
        return shadow
    batched = getattr(dataset, "__getitems__", None)
    return (_Batches if batched else _Samples)(recorder, dataset, _dataset_name(recorder, dataset))


def _dataset_name(recorder: BatchRecorder, dataset: Any) -> int:
    kind = type(dataset)
    return recorder.names.get(id(kind)) or recorder.name(kind, facts.name_of(kind), facts.class_place(kind))


def _collate_name(recorder: BatchRecorder, collate: Any) -> int:
    function = facts.plain_function(collate)
    return recorder.name(collate, facts.name_of(function), facts.function_place(function))


class _Samples:
    """Stands for a dataset in the fetch of one batch: every sample is a span."""

    __slots__ = ("_name", "_recorder", "watched")

    def __init__(self, recorder: BatchRecorder, dataset: Any, name: int) -> None:
        self._recorder, self.watched, self._name = recorder, dataset, name

    @hidden_from_warnings
    def __getitem__(self, index: Any) -> Any:
        sample = self.watched[index]
        self._recorder.sample(index, self._name)
        return sample


class _Batches(_Samples):
    """Stands for a dataset that makes the samples of a batch in one go: they are one span."""

    __slots__ = ()

    @hidden_from_warnings
    def __getitems__(self, indices: Any) -> Any:
        samples = self.watched.__getitems__(indices)
        self._recorder.sample(-1, self._name, len(indices))
        return samples


class _Stream:
    """Stands for the iterator of an IterableDataset: every sample is a span."""

    __slots__ = ("_iterator", "_name", "_recorder")

    def __init__(self, recorder: BatchRecorder, iterator: Iterator[Any], name: int) -> None:
        self._recorder, self._iterator, self._name = recorder, iterator, name

    def __iter__(self) -> _Stream:
        return self

    @hidden_from_warnings
    def __next__(self) -> Any:
        sample = next(self._iterator)
        self._recorder.sample(-1, self._name)
        return sample
