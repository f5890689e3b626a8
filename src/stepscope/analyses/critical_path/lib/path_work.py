"""What each piece of device work waited for last: its stream, its launch, or another stream.

A piece of work can start once the work before it on its stream has ended, its launch has been called, and the events
that its stream waits for have been recorded (`cudaStreamWaitEvent`). The last of these to happen is what held it up.
Where a trace was recorded with synchronization events, it names the record that a wait is for. Elsewhere, work that
starts later than launch and stream explain waited for the work on another stream that ended last before its start, if
the host called a wait for an event since the launch before on this stream, or if nothing else explains a delay of more
than LONG_DELAY. Work whose launch is not in the trace and whose stream was empty is taken to have been launched when it
started.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.device.lib.device_gaps import LONG_DELAY
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.host_order import HostOrder
from stepscope.analyses.lib.launch_calls import launches
from stepscope.core.run import Run

__all__ = ["HOST", "JITTER", "LAUNCH", "NOTHING", "OTHER_STREAM", "STREAM", "Work", "is_stream_wait", "path_work"]

NOTHING, STREAM, OTHER_STREAM, LAUNCH, HOST = range(5)
"""What held a piece of work up; HOST: the host, at an unknown place."""

JITTER = 1_000
"""ns by which work may seem to start before what it waited for has ended: old traces round to microseconds."""

_FAR = 2**62  # ns: before all times of a trace, and no sum with it overflows
_LANE = ("rank", "device", "stream")
_CALL = ("rank", "pid", "correlation")
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Device work, in the order of `device_work`. `lanes` numbers the streams; `lane` is that of each piece.

    `order` sorts by lane and start, from `first[lane]` on. `call` is the row of the launch in the host tree, -1 if
    unknown. `via` is what held a piece up until `at`; `source` is the row of that work, or of that call, or -1.
    """

    frame: pl.DataFrame
    lanes: pl.DataFrame
    lane: Ints
    order: Ints
    first: Ints
    start: Ints
    end: Ints
    call: Ints
    via: Ints
    source: Ints
    at: Ints

    def on_lane(self, lane: int) -> Ints:
        """Rows of one stream by start."""
        return self.order[self.first[lane] : self.first[lane + 1]]

    def launched_before(self, order: HostOrder, lanes: Ints, times: Ints) -> Ints:
        """The last piece on each stream asked for that was launched before a time, -1 if there is none."""
        return self._near(order, lanes, times, -1)

    def launched_after(self, order: HostOrder, lanes: Ints, times: Ints) -> Ints:
        """As `launched_before`, the first piece that was not launched before."""
        return self._near(order, lanes, times, 0)

    def _near(self, order: HostOrder, lanes: Ints, times: Ints, step: int) -> Ints:
        launched = np.where(self.call >= 0, order.start[self.call], self.start)
        found = np.full(len(lanes), -1, dtype=np.int64)
        for lane in np.unique(lanes[lanes >= 0]).tolist():
            rows, asked = self.on_lane(lane), np.flatnonzero(lanes == lane)
            at = np.searchsorted(np.maximum.accumulate(launched[rows]), times[asked]) + step
            inside = (at >= 0) & (at < len(rows))
            found[asked[inside]] = rows[at[inside]]
        return found


def is_stream_wait(name: str) -> bool:
    """Whether a call makes a stream wait for an event: cudaStreamWaitEvent, hipStreamWaitEvent, …"""
    return "StreamWaitEvent" in name


def path_work(run: Run, order: HostOrder | None) -> Work:
    """Device work with what held each piece up; `order` is that of the host, if there is one.

    Raises MissingData without device work.
    """
    frame = device_work(run, "pid", "index", "name", "stream", "correlation")
    lanes = (
        frame.select(_LANE)
        .unique(maintain_order=True)
        .with_row_index("lane")
        .with_columns(pl.col("lane").cast(pl.Int64))
    )
    lane = frame.select(_LANE).join(lanes, on=_LANE, how="left", maintain_order="left", nulls_equal=True)["lane"]
    start, end = frame["start"].to_numpy(), frame["end"].to_numpy()
    numbers = lane.to_numpy()
    by_lane = np.lexsort((end, start, numbers))
    nothing = np.full(len(start), -1, dtype=np.int64)
    work = Work(
        frame=frame, lanes=lanes, lane=numbers, order=by_lane, start=start, end=end, call=launches(run).call,
        first=np.searchsorted(numbers[by_lane], np.arange(lanes.height + 1)),
        via=np.zeros(len(start), dtype=np.int64), source=nothing, at=np.full(len(start), -_FAR),
    )  # fmt: skip
    before = _before(work)
    _offer(work, STREAM, before, end)
    after_wait = np.zeros(len(start), dtype=np.bool_)
    if order is not None:
        named = _offer_events(run, work, order)
        after_wait = _after_wait(work, order, before) & ~frame["rank"].is_in(named).to_numpy()
        _offer(work, LAUNCH, np.where(_waited_inside(work, order), -1, work.call), order.end)
    _offer_unexplained(work, order, after_wait)
    return work


def _offer(work: Work, via: int, source: Ints, ends: Ints) -> None:
    """Take `source`, where there is one, for what held the work up if it ended after what was known so far."""
    at = np.where(source >= 0, np.minimum(ends[source], work.start), -_FAR)
    later = at > work.at
    work.via[later], work.source[later], work.at[later] = via, source[later], at[later]


def _before(work: Work) -> Ints:
    """The work before each piece on its stream; where that overlaps it, the last one to have ended before it."""
    rows = work.order
    before = np.full(len(rows), -1, dtype=np.int64)
    before[rows[1:]] = np.where(work.lane[rows[1:]] == work.lane[rows[:-1]], rows[:-1], -1)
    overlaps = (before >= 0) & (work.end[before] > work.start + JITTER)
    for lane in np.unique(work.lane[overlaps]).tolist():
        asked = np.flatnonzero(overlaps & (work.lane == lane))
        before[asked] = _last_ended(work, work.on_lane(lane), asked)
    return before


def _last_ended(work: Work, among: Ints, asked: Ints) -> Ints:
    """For each piece asked for, the last one among others to end before it starts, -1 if there is none."""
    by_end = among[np.argsort(work.end[among], kind="stable")]
    at = np.searchsorted(work.end[by_end], work.start[asked], side="right") - 1
    found = by_end[np.maximum(at, 0)]
    return np.where((at >= 0) & (work.start[found] < work.start[asked]), found, -1)


def _offer_events(run: Run, work: Work, order: HostOrder) -> list[int]:
    """Waits of streams that the trace names: the record waited for, and the first work behind the wait.

    Returns the ranks whose trace names them.
    """
    waits = run.where(
        "device", (pl.col("kind") == "sync") & (pl.col("waits_for_record") > 0),
        "name", *_LANE, "pid", "correlation", "waits_for_record", "waits_for_stream",
    ).filter(pl.col("name").str.contains("Wait Event"))  # fmt: skip
    ranks = waits["rank"].unique().to_list()
    if not ranks:
        return ranks
    calls = order.tree.frame.select("rank", "track", "correlation", called="start").filter(order.tree.calls)
    calls = order.tree.with_threads(calls, "pid").drop("track")
    records = calls.rename({"correlation": "waits_for_record", "called": "recorded"})
    waits = waits.join(calls, on=_CALL).join(records, on=("rank", "pid", "waits_for_record"))
    waits = waits.join(work.lanes, on=_LANE, nulls_equal=True)
    from_lane = work.lanes.rename({"lane": "from", "stream": "from_stream"})
    waits = waits.with_columns(from_stream=pl.col("waits_for_stream").cast(pl.String)).join(
        from_lane, on=("rank", "device", "from_stream")
    )
    target = work.launched_after(order, waits["lane"].to_numpy(), waits["called"].to_numpy())
    found = work.launched_before(order, waits["from"].to_numpy(), waits["recorded"].to_numpy())
    known = (target >= 0) & (found >= 0)
    target, found = target[known], found[known]
    earlier = work.start[found] < work.start[target]
    target, found = target[earlier], found[earlier]
    by_end = np.argsort(work.end[found], kind="stable")  # of several waits for one piece the last to end remains
    source = np.full(len(work.start), -1, dtype=np.int64)
    source[target[by_end]] = found[by_end]
    _offer(work, OTHER_STREAM, source, work.end)
    return ranks


def _waited_inside(work: Work, order: HostOrder) -> Bools:
    """Copies whose call was still running when they started, and had begun before their stream was free.

    A copy of pageable memory does not return before it is done, so its call waits for the stream.
    """
    copies = (work.frame["role"] == "memory").to_numpy() & (work.call >= 0)
    inside: Bools = copies & (order.end[work.call] > work.start) & (work.at > order.start[work.call])
    return inside & ~_is_late(work)


def _after_wait(work: Work, order: HostOrder, before: Ints) -> Bools:
    """Where the host called a wait for an event between the launch before on the stream and this one."""
    waits = order.tree.calls & order.tree.named(is_stream_wait)
    so_far = np.empty(len(waits), dtype=np.int64)
    so_far[order.tree.nesting.order] = np.cumsum(waits[order.tree.nesting.order])
    call, call_before = work.call, np.where(before >= 0, work.call[before], -1)
    known = (call >= 0) & (call_before >= 0) & (order.track[call] == order.track[call_before])
    found: Bools = known & (so_far[call] > so_far[call_before])
    return found


def _offer_unexplained(work: Work, order: HostOrder | None, after_wait: Bools) -> None:
    asked = after_wait | _is_late(work)
    device_of_lane = work.lanes.select(pl.struct("rank", "device").rank("dense").cast(pl.Int64)).to_series()
    device = device_of_lane.to_numpy()[work.lane]
    source = np.full(len(asked), -1, dtype=np.int64)
    for this in np.unique(device[asked]).tolist():
        rows = np.flatnonzero(asked & (device == this))
        source[rows] = _last_ended(work, np.flatnonzero(device == this), rows)
    other = (source >= 0) & (work.lane[source] != work.lane)
    _offer(work, OTHER_STREAM, np.where(other, source, -1), work.end)
    has_host = [] if order is None else order.tree.frame["rank"].unique().to_list()
    by_host = (work.call < 0) & _is_late(work) & work.frame["rank"].is_in(has_host).to_numpy()
    work.via[by_host], work.source[by_host], work.at[by_host] = HOST, -1, work.start[by_host]


def _is_late(work: Work) -> Bools:
    """What starts later than what is known to have held it up explains."""
    late: Bools = (work.via == NOTHING) | (work.start > work.at + LONG_DELAY)
    return late
