"""When host threads went on because something else had ended: device work, or the work of another thread.

Device: a call that synchronizes with a stream, an event or the device, a copy that blocks, and a call that frees memory
and so waits for the device, return because of the last work they waited for, if that ended while the call was running.
A call for a stream waits for the stream that the trace names, else for the one that its thread launched work on last.

Threads: where the main thread runs no operator while autograd's own threads run backward operators, it waits for the
last of these; where a thread runs none for more than half of which a collective transfers on a thread of the host
(gloo), it waits for that. Any other thread is driven by the main thread: where it runs nothing while the main thread
runs something, it goes on because the main thread handed it work.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.critical_path.lib.path_work import JITTER, Work
from stepscope.analyses.lib.host_events import THREAD
from stepscope.analyses.lib.host_order import HostOrder, host_order
from stepscope.analyses.lib.markers import is_backward, step_markers
from stepscope.core.intervals import Spans, overlap_each
from stepscope.core.run import Run

__all__ = ["Waits", "main_tracks", "path_waits", "synchronizes", "transfers_on_host"]

Ints = npt.NDArray[np.int64]
_RUNTIMES = ("cuda", "cu", "hip", "musa")
_STREAM_SYNC, _EVENT_SYNC, _DEVICE_SYNC = "StreamSynchronize", "EventSynchronize", "Synchronize"
_FREE = ("Free", "FreeHost", "HostFree", "MemFree")  # they wait until the device has done everything
_CALL = ("rank", "pid", "correlation")
_FAR = 2**62  # ns, before and behind all times of a trace, and no difference of two overflows


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """In order of track and time: a thread went on at `time`, because something ended at `at`, before `time`.

    That is the device work of row `work`, or, where it is -1, what ran on the thread `thread`.
    """

    track: Ints
    time: Ints
    at: Ints
    work: Ints
    thread: Ints


def synchronizes(name: str) -> bool:
    """Whether a runtime or driver call waits for a stream, an event or the device."""
    return _named(name, _DEVICE_SYNC)


def transfers_on_host(name: str) -> bool:
    """Whether an annotation is a collective of gloo, which transfers on a thread of the host."""
    return name.startswith("gloo:")


def main_tracks(run: Run) -> dict[int, int]:
    """The main thread of each rank: that of its step markers, else the one with most time in operators but autograd's.

    Raises MissingData as `host_tree` does.
    """
    return run.once(_main_tracks)


def _main_tracks(run: Run) -> dict[int, int]:
    order = host_order(run)
    outer = order.tree.operators & (order.tree.nesting.parent < 0) & ~order.tree.passing(is_backward())
    lengths = np.bincount(order.track[outer], (order.end - order.start)[outer], minlength=len(order.tracks))
    threads = order.tree.threads
    ranked = threads.with_columns(length=pl.Series(lengths)).sort("rank", -pl.col("length"), "track")
    main = dict(ranked.unique("rank", keep="first", maintain_order=True).select("rank", "track").iter_rows())
    marked = step_markers(run).join(threads, on=THREAD, nulls_equal=True).group_by("rank", "track").len()
    marked = marked.sort("rank", -pl.col("len").cast(pl.Int64), "track")
    return main | dict(marked.unique("rank", keep="first", maintain_order=True).select("rank", "track").iter_rows())


def path_waits(run: Run, order: HostOrder, work: Work | None) -> Waits:
    """All waits of the host threads of a run; `work` is None without device work."""
    parts = _for_threads(run, order)
    if work is not None:
        parts += [_for_copies(order, work), _for_calls(run, order, work)]
    track, time, at, piece, thread = (np.concatenate([part[n] for part in parts]) for n in range(5))
    by_time = np.lexsort((at, time, track))
    return Waits(track[by_time], time[by_time], at[by_time], piece[by_time], thread[by_time])


WaitColumns = tuple[Ints, Ints, Ints, Ints, Ints]


def _for_work(order: HostOrder, work: Work, calls: Ints, pieces: Ints) -> WaitColumns:
    """Calls that return because of a piece of work, where that ended while they were running."""
    ends = work.end[pieces]
    waited = (pieces >= 0) & (ends > order.start[calls]) & (ends <= order.end[calls] + JITTER)
    waited &= work.start[pieces] <= order.end[calls]
    calls, pieces = calls[waited], pieces[waited]
    time = order.end[calls]
    return order.track[calls], time, np.minimum(work.end[pieces], time), pieces, np.full(len(calls), -1, dtype=np.int64)


def _for_copies(order: HostOrder, work: Work) -> WaitColumns:
    copies = np.flatnonzero((work.frame["role"] == "memory").to_numpy() & (work.call >= 0))
    return _for_work(order, work, work.call[copies], copies)


def _for_calls(run: Run, order: HostOrder, work: Work) -> WaitColumns:
    tree = order.tree
    rows = np.flatnonzero(tree.calls & tree.named(_waits))
    calls = tree.frame.select("rank", "track", "correlation")[rows]
    of_stream = tree.named(lambda name: _named(name, _STREAM_SYNC))[rows]
    lane, record = _told(run, order, work, calls)
    lane = np.where(of_stream & (lane < 0), _lane_in_use(order, work, rows), lane)
    pieces = _ended_on(work, np.where(of_stream, lane, -1), order.end[rows], calls["rank"].to_numpy())
    of_event = tree.named(lambda name: _named(name, _EVENT_SYNC))[rows] & (record >= 0)
    if of_event.any():
        pieces[of_event] = work.launched_before(order, lane[of_event], order.start[record[of_event]])
    return _for_work(order, work, rows, pieces)


def _told(run: Run, order: HostOrder, work: Work, calls: pl.DataFrame) -> tuple[Ints, Ints]:
    """The stream that each call waits for, and the call that recorded its event, where the trace says it; else -1."""
    told = run.where(
        "device", pl.col("kind") == "sync", "name", "rank", "pid", "device", "stream", "correlation",
        "waits_for_record", "waits_for_stream",
    )  # fmt: skip
    if told.is_empty():
        nothing = np.full(calls.height, -1, dtype=np.int64)
        return nothing, nothing
    told = told.unique(_CALL, keep="first", maintain_order=True).with_columns(
        stream=pl.when(pl.col("name").str.contains("Event"))
        .then(pl.col("waits_for_stream").cast(pl.String))
        .otherwise("stream")
    )
    told = told.join(work.lanes, on=("rank", "device", "stream"), how="left", nulls_equal=True)
    records = order.tree.frame.select("rank", "track", "correlation").with_row_index("record")
    asked = pl.col("correlation").is_in(told["waits_for_record"].drop_nulls().unique().implode())
    records = order.tree.with_threads(records.filter(asked & pl.Series(order.tree.calls)), "pid")
    recorded = ("rank", "pid", "waits_for_record")
    records = records.select("record", "rank", "pid", waits_for_record="correlation")
    told = told.join(records.unique(recorded, keep="first", maintain_order=True), on=recorded, how="left")
    calls = order.tree.with_threads(calls, "pid")
    found = calls.join(told.select(*_CALL, "lane", "record"), on=_CALL, how="left", maintain_order="left")
    lane, record = (found[name].cast(pl.Int64).fill_null(-1).to_numpy() for name in ("lane", "record"))
    return lane, record


def _lane_in_use(order: HostOrder, work: Work, rows: Ints) -> Ints:
    """The stream that the thread of each call launched work on last before it, -1 if it launched none."""
    known = np.flatnonzero(work.call >= 0)
    lane_of = np.full(len(order.start), -1, dtype=np.int64)
    lane_of[work.call[known]] = work.lane[known]
    found = np.full(len(rows), -1, dtype=np.int64)
    for this in np.unique(order.track[rows]).tolist():
        launches = order.of_track(this)
        launches = launches[lane_of[launches] >= 0]
        asked = np.flatnonzero(order.track[rows] == this)
        at = np.searchsorted(order.start[launches], order.start[rows[asked]]) - 1
        found[asked[at >= 0]] = lane_of[launches[at[at >= 0]]]
    return found


def _ended_on(work: Work, lanes: Ints, times: Ints, ranks: Ints) -> Ints:
    """The last piece of work to end before each time, on a stream, or, for lane -1, on any device of the rank."""
    found = np.full(len(lanes), -1, dtype=np.int64)
    rank_of = work.frame["rank"].to_numpy()
    groups = [(work.on_lane(lane), lanes == lane) for lane in np.unique(lanes[lanes >= 0]).tolist()]
    groups += [
        (np.flatnonzero(rank_of == rank), (lanes < 0) & (ranks == rank))
        for rank in np.unique(ranks[lanes < 0]).tolist()
    ]
    for rows, mask in groups:
        by_end = rows[np.argsort(work.end[rows], kind="stable")]
        at = np.searchsorted(work.end[by_end], times[mask] + JITTER, side="right") - 1
        found[mask] = np.where(at >= 0, by_end[np.maximum(at, 0)] if len(by_end) else -1, -1)
    return found


def _for_threads(run: Run, order: HostOrder) -> list[WaitColumns]:
    tree = order.tree
    backward = tree.operators & tree.passing(is_backward())
    transfers = tree.named(transfers_on_host)
    active = tree.operators | tree.calls | transfers
    busy = [order.busy(track, active) for track in order.tracks]
    gaps = [_gaps(spans) for spans in busy]
    rank = tree.threads["rank"].to_list()
    mains = main_tracks(run)
    driver = [mains[of_rank] for of_rank in rank]
    driven = [track for track in order.tracks if track != driver[track]]
    parts = [_nothing(), *(_handed_over(track, driver[track], gaps[track], busy[driver[track]]) for track in driven)]
    for other in sorted(set(np.unique(order.track[backward]).tolist()) & set(driven)):
        main = driver[other]
        parts.append(_awaited(main, other, gaps[main], order.busy(other, backward), least=0.0))
    for other in np.unique(order.track[transfers]).tolist():
        transferring = order.busy(other, transfers)
        waiting = [track for track in order.tracks if track != other and rank[track] == rank[other]]
        parts += [_awaited(track, other, gaps[track], transferring, least=0.5) for track in waiting]
    return parts


def _gaps(busy: Spans) -> Spans:
    """When a thread ran nothing: before, between and after what it ran, without the time behind it."""
    ends = np.concatenate(([-_FAR], busy[:, 1]))
    starts = np.concatenate((busy[:, 0], [_FAR]))
    return np.stack((ends, starts), axis=1)


def _handed_over(track: int, main: int, gaps: Spans, busy: Spans) -> WaitColumns:
    """A thread goes on when its gap ends, if the main thread was at work in the gap."""
    gaps = gaps[:-1]
    gaps = gaps[overlap_each(gaps, busy) > 0]
    return _part(track, gaps[:, 1], gaps[:, 1], main)


def _awaited(track: int, other: int, gaps: Spans, helping: Spans, *, least: float) -> WaitColumns:
    """A thread goes on when its gap ends, because of what last ended in the gap on another thread."""
    if not len(helping):
        return _nothing()
    last = np.searchsorted(helping[:, 1], gaps[:, 1], side="right") - 1
    ends = np.where(last >= 0, helping[np.maximum(last, 0), 1], -_FAR)
    inside = ends > gaps[:, 0]
    gaps, ends = gaps[inside], ends[inside]
    lengths = np.minimum(gaps[:, 1].astype(float) - gaps[:, 0], _FAR)
    enough = overlap_each(gaps, helping) >= least * lengths
    return _part(track, gaps[enough, 1], ends[enough], other)


def _part(track: int, time: Ints, at: Ints, thread: int) -> WaitColumns:
    count = len(time)
    none = np.full(count, -1, dtype=np.int64)
    return np.full(count, track), time, at, none, np.full(count, thread)


def _nothing() -> WaitColumns:
    return _part(-1, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), -1)


def _waits(name: str) -> bool:
    return _named(name, _DEVICE_SYNC) or any(name == runtime + free for runtime in _RUNTIMES for free in _FREE)


def _named(name: str, ending: str) -> bool:
    """Whether a call is one of the runtimes' with such an ending; a version may follow: cudaStreamSynchronize_ptsz."""
    return name.startswith(_RUNTIMES) and ending in name
