"""The queue of each stream: launches that the host has made and that have not begun to run."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.launched_work import launched_work
from stepscope.core.run import Run

__all__ = ["Queue", "queues"]

_STREAM = ("rank", "device", "stream")
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """The launches of one stream and the length of its queue; times in ns.

    `launched` and `started` have one row per launch, `time` and `length` one per moment at which the length changes.
    """

    rank: int
    device: int
    stream: str | None
    launched: Ints
    started: Ints
    time: Ints
    length: Ints


def queues(run: Run) -> tuple[Queue, ...]:
    """The queue of each stream, by rank, device and stream.

    A graph's launch is one entry in each stream that its work runs on. A start that the clocks put before its launch
    counts as launched then. Raises MissingData without launches of device work.
    """
    return run.once(_queues)


def _queues(run: Run) -> tuple[Queue, ...]:
    work = launched_work(run).select(*_STREAM, "call", "start", "call_start")
    parts = work.partition_by(_STREAM, as_dict=True)
    ordered = pl.DataFrame(list(parts), schema=_STREAM, orient="row").sort(_STREAM)
    return tuple(_queue(parts[key]) for key in ordered.iter_rows())


def _queue(work: pl.DataFrame) -> Queue:
    """The queue of one stream."""
    work = work.sort("call", "start")
    call = work["call"].to_numpy()
    first = np.append(True, call[1:] != call[:-1])
    started = work["start"].to_numpy()[first]
    launched = np.minimum(work["call_start"].to_numpy()[first], started)
    times = np.concatenate((launched, started))
    order = np.argsort(times, kind="stable")
    lengths = np.cumsum(np.repeat((1, -1), len(started))[order])
    assert lengths[-1] == 0 and lengths.min() >= 0
    times = times[order]
    last = np.append(times[1:] != times[:-1], True)  # of several changes at once, what is left of them
    times, lengths = times[last], lengths[last]
    changed = np.diff(lengths, prepend=0) != 0
    rank, device, stream = work.select(_STREAM).row(0)
    return Queue(rank, device, stream, launched, started, times[changed], lengths[changed])
