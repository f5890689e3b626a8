"""The times in which a device has no work at all, each divided by why the work that ends it did not start earlier.

The parts are in order of time, and of precedence where the host was in several at once:

- until the call that starts the next work begins: `data_wait`, the process was inside a loader's next batch;
  `collective`, inside a collective that transfers on the host (gloo); `sync`, the launching thread was still inside a
  call that waits for the device or copies; `host`, none of these: the host was busy with other things;
- `launch`: the call that starts the next work was running;
- after that call: `latency`, or `stream` if the next work had been launched before the gap began and runs on another
  stream than the work before it. A delay of more than LONG_DELAY is neither: it is `unexplained`, since nothing in the
  trace was at work;
- `unknown`: the call is not in the trace, or the recording stopped before the next work.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.host_rows import host_where
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.markers import data_waits, unrecorded
from stepscope.analyses.lib.result_tables import parts
from stepscope.core.intervals import Spans, overlap_each, spans, subtract, union
from stepscope.core.run import Run

__all__ = ["BEFORE_LAUNCH", "CAUSES", "LONG_DELAY", "device_gaps", "recorded_gaps"]

BEFORE_LAUNCH = ("data_wait", "collective", "sync", "host")
"""What keeps the host from launching."""

CAUSES = (*BEFORE_LAUNCH, "launch", "latency", "stream", "unexplained", "unknown")
"""Why a device idles, in the order of the module's docstring."""

LONG_DELAY = 100_000  # ns from a launch to its start: HTA's bound of a usual one, ten times what drivers need

_BLOCKING = r"^(?:cuda|cu|hip|musa)(?:(?:Stream|Device|Event|Ctx|Thread)Synchronize|Memcpy)"
_DEVICE = ("rank", "device")
_NEVER = np.iinfo(np.int64).max
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def device_gaps(run: Run) -> pl.DataFrame:
    """One row per gap, in order of rank, device and start: rank, device, start, end, next, call, operator, track,
    call_start, call_end, and the time in ns of each cause, which add up to end - start.

    `next` is the name of the work that ends the gap, `call` and `operator` rows of the host tree, -1 for none, and
    `track` the thread of that call, -1 if unknown. Raises MissingData without device work.
    """
    return run.once(_device_gaps)


def _device_gaps(run: Run) -> pl.DataFrame:
    work = _work(run)
    found = [_of_device(part, unrecorded(run, part["rank"][0])) for part in parts(work, *_DEVICE)]
    gaps = pl.concat(found).sort(*_DEVICE, "start")
    gaps = gaps.with_columns(_causes(run, gaps))
    _check(run, gaps)
    return gaps


def _work(run: Run) -> pl.DataFrame:
    """Device work with the call that started it: its row in the host tree, its thread's number and its times."""
    found = launches(run)
    work = device_work(run, "stream", "name", "index").with_columns(
        call=pl.Series(found.call), operator=pl.Series(found.operator)
    )
    if found.tree is None:
        nothing = pl.lit(None, dtype=pl.Int64)
        return work.with_columns(track=pl.lit(-1, dtype=pl.Int64), call_start=nothing, call_end=nothing)
    known, row = pl.Series(found.call >= 0), np.maximum(found.call, 0)
    calls = found.tree.frame.select("track", call_start="start", call_end="end")[row]
    calls = calls.select(pl.when(known).then(pl.all()))
    return work.hstack(calls.with_columns(pl.col("track").fill_null(-1)))


def recorded_gaps(work: pl.DataFrame, unknown: Spans) -> Spans:
    """The times of one device without work, from its first to its last work, but for times that were not recorded."""
    busy = union(spans(work))
    first, last = work.select(first=pl.col("start").min(), last=pl.col("end").max()).row(0)
    recorded = subtract(np.array([[first, last]], dtype=np.int64), subtract(unknown, busy))
    return subtract(recorded, busy)


def _of_device(work: pl.DataFrame, unknown: Spans) -> pl.DataFrame:
    """Gaps with the work that ends each; of several that start at once, the one that was launched first."""
    gaps = recorded_gaps(work, unknown)
    work = work.sort("start", "call_start", "index", nulls_last=True)
    starts = work["start"].to_numpy()
    row = np.searchsorted(starts, gaps[:, 1])
    ended = np.append(starts, _NEVER)[row] == gaps[:, 1]
    row = np.minimum(row, len(starts) - 1)
    times = {"start": pl.Series(gaps[:, 0], dtype=pl.Int64), "end": pl.Series(gaps[:, 1], dtype=pl.Int64)}
    following = work.select(*_DEVICE, pl.col("call", "operator", "track", "call_start", "call_end"), next="name")[row]
    if_followed = pl.when(pl.Series(ended))
    return following.with_columns(
        **times,
        **{name: if_followed.then(name).otherwise(-1) for name in ("call", "operator", "track")},
        **{name: if_followed.then(name) for name in ("call_start", "call_end", "next")},
        same_stream=pl.Series(_follows_own_stream(work, gaps[:, 0], row)),
    )


def _follows_own_stream(work: pl.DataFrame, ended: Ints, row: Ints) -> Bools:
    """Whether any work that ends at a moment is of the stream of the work in a row."""
    stream = work["stream"].rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
    end = work["end"].to_numpy()
    base, count = int(end.min()), int(stream.max()) + 1
    keys = np.sort((end - base) * count + stream)
    asked = (ended - base) * count + stream[row]
    at = np.searchsorted(keys, asked)
    follows: Bools = np.append(keys, _NEVER)[at] == asked
    return follows


def _causes(run: Run, gaps: pl.DataFrame) -> list[pl.Series]:
    start, end = gaps["start"].to_numpy(), gaps["end"].to_numpy()
    known = gaps["call_start"].is_not_null().to_numpy()
    begins = np.clip(gaps["call_start"].fill_null(0).to_numpy(), start, end)
    returns = np.clip(gaps["call_end"].fill_null(0).to_numpy(), begins, end)
    delay = np.where(known, end - returns, 0)
    usual = delay <= LONG_DELAY
    handed_over = (returns == start) & ~gaps["same_stream"].to_numpy()
    parts = _host_parts(run, gaps, np.stack((start, np.where(known, begins, start)), axis=1))
    parts |= {
        "launch": np.where(known, returns - begins, 0),
        "latency": np.where(usual & ~handed_over, delay, 0),
        "stream": np.where(usual & handed_over, delay, 0),
        "unexplained": np.where(usual, 0, delay),
        "unknown": np.where(known, 0, end - start),
    }
    return [pl.Series(cause, parts[cause], dtype=pl.Int64) for cause in CAUSES]


def _host_parts(run: Run, gaps: pl.DataFrame, windows: Spans) -> dict[str, Ints]:
    """What the host did in a window before each launch."""
    ranks, tracks = gaps["rank"].to_numpy(), gaps["track"].to_numpy()
    parts = {cause: np.zeros(len(windows), dtype=np.int64) for cause in ("data_wait", "collective", "sync")}
    waits = data_waits(run)
    transfers = host_where(run, None, pl.col("name").str.starts_with("gloo:"), "rank", "start", "end")
    blocking = _blocking_calls(run)
    for rank in np.unique(ranks).tolist():
        own = ranks == rank
        loading = union(spans(waits.filter(pl.col("rank") == rank)))
        transferring = subtract(spans(transfers.filter(pl.col("rank") == rank)), loading)
        parts["data_wait"][own] = overlap_each(windows[own], loading)
        parts["collective"][own] = overlap_each(windows[own], transferring)
        elsewhere = union(np.concatenate((loading, transferring)))
        for track in np.unique(tracks[own & (tracks >= 0)]).tolist():
            there = own & (tracks == track)
            calls = subtract(spans(blocking.filter(pl.col("track") == track)), elsewhere)
            parts["sync"][there] = overlap_each(windows[there], calls)
    parts["host"] = windows[:, 1] - windows[:, 0] - sum(parts.values())
    return parts


def _blocking_calls(run: Run) -> pl.DataFrame:
    """Calls that wait for the device or copy: track, start, end."""
    tree = launches(run).tree
    if tree is None:
        return pl.DataFrame(schema={"track": pl.Int64, "start": pl.Int64, "end": pl.Int64})
    blocking = tree.calls & tree.passing(pl.col("name").str.contains(_BLOCKING))
    return tree.frame.select("track", "start", "end").filter(blocking)


def _check(run: Run, gaps: pl.DataFrame) -> None:
    """The causes are a partition of each gap, and the gaps are the idle time of their device."""
    whole = pl.col("end") - pl.col("start")
    assert gaps.select((pl.sum_horizontal(CAUSES) == whole).all()).item()
    assert gaps.select(pl.min_horizontal(CAUSES).ge(0).all()).item()
    found = gaps.group_by(_DEVICE).agg(found=whole.sum())
    idle = device_time(run).select(*_DEVICE, "idle").join(found, on=_DEVICE, how="left", nulls_equal=True)
    assert idle.select((pl.col("idle") == pl.col("found").fill_null(0)).all()).item()
