"""Time in which each stream has no work, between its first and its last, divided in two ways that each add up to it.

One row is a stream. Times are ns. HTA's idle breakdown gives each gap to one cause by its launch:

- `host_wait`: it was launched after the work before it had ended;
- `kernel_wait`: it had been launched by then, and the gap is shorter than 30 µs;
- `other`: the rest, and gaps whose launch is not in the trace but for short ones, which are kernel_wait.

The second division is by nanosecond, and also tells a stream that waits for another from one that merely starts late:

- `before_launch`: the next work of the stream had not been launched;
- `in_launch`: the call that launches it was running;
- `other_streams`: launched, while the device works on other streams: the stream waits for them, or lacks free SMs;
- `device_idle`: launched, while the device has no work at all;
- `unknown`: the launch is not in the trace.

A stream that waits while another works loses no time of the device; `idle_gaps` has the time that is lost. Time between
traced windows is left out.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.markers import unrecorded
from stepscope.analyses.lib.result_tables import RANK, parts, table
from stepscope.core.intervals import Spans, overlap_each, spans, subtract, union
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device"),
    Column("stream", pl.String, None, "stream or queue"),
    Column("work", pl.Int64, "count", "kernels, copies and sets"),
    Column("gaps", pl.Int64, "count", "gaps between them"),
    Column("span", pl.Int64, "ns", "from the first start to the last end"),
    Column("idle", pl.Int64, "ns", "time without work of this stream"),
    Column("host_wait", pl.Int64, "ns", "gaps before work that was launched after the work before had ended"),
    Column("kernel_wait", pl.Int64, "ns", "gaps below 30 µs before work that had been launched"),
    Column("other", pl.Int64, "ns", "other gaps"),
    Column("before_launch", pl.Int64, "ns", "time before the launch of the next work"),
    Column("in_launch", pl.Int64, "ns", "time in the call that launches it"),
    Column("other_streams", pl.Int64, "ns", "time after that call in which other streams work"),
    Column("device_idle", pl.Int64, "ns", "time after that call in which no stream works"),
    Column("unknown", pl.Int64, "ns", "time of gaps whose launch is not in the trace"),
)
_SHORT = 30_000  # ns: HTA's bound between work that follows work and another cause (its consecutive_kernel_delay)
_STREAM = ("rank", "device", "stream")
Ints = npt.NDArray[np.int64]


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, device and stream. Raises MissingData without device work."""
    rows = []
    for of_device in parts(_work(run), "rank", "device"):
        busy = union(spans(of_device))
        unknown = subtract(unrecorded(run, of_device["rank"][0]), busy)
        times = of_device.select(*_STREAM, "start", "end", "call_start", "call_end")
        streams = times.sort("start", "end", "call_start").partition_by("stream", maintain_order=True)
        rows += [(*part.select(_STREAM).row(0), *_row(part, busy, unknown)) for part in streams]
    return table(rows, COLUMNS).sort(_STREAM)


def _work(run: Run) -> pl.DataFrame:
    """Device work with the times of the call that launched it, null where that is not in the trace."""
    found = launches(run)
    work = device_work(run, "stream")
    if found.tree is None:
        return work.with_columns(pl.lit(None, dtype=pl.Int64).alias(name) for name in ("call_start", "call_end"))
    called = found.tree.frame.select(call_start="start", call_end="end")[np.maximum(found.call, 0)]
    return work.hstack(called.select(pl.when(pl.Series(found.call >= 0)).then(pl.all())))


def _row(work: pl.DataFrame, busy: Spans, unknown: Spans) -> tuple[int, ...]:
    start, end = work["start"].to_numpy(), np.maximum.accumulate(work["end"].to_numpy())
    follows = np.nonzero(start[1:] > end[:-1])[0] + 1
    gaps = np.stack((end[follows - 1], start[follows]), axis=1)
    called = work.select("call_start", "call_end")[follows]
    recorded = _recorded(gaps, unknown)
    parts = (*_by_gap(recorded, gaps, called), *_by_time(recorded, gaps, called, busy, unknown))
    whole = np.array([[start[0], end[-1]]], dtype=np.int64)
    idle = int(recorded.sum())
    assert sum(parts[:3]) == idle == sum(parts[3:])
    return (work.height, len(gaps), int(_recorded(whole, unknown).sum()), idle, *parts)


def _recorded(windows: Spans, unknown: Spans) -> Ints:
    """Length of each window without the time that was not recorded."""
    length: Ints = windows[:, 1] - windows[:, 0] - overlap_each(windows, unknown)
    return length


def _by_gap(recorded: Ints, gaps: Spans, called: pl.DataFrame) -> tuple[int, ...]:
    """HTA's division: host wait, kernel wait, other."""
    late = (called["call_start"] > pl.Series(gaps[:, 0])).fill_null(False).to_numpy()
    short = ~late & (gaps[:, 1] - gaps[:, 0] < _SHORT)
    return tuple(int(recorded[chosen].sum()) for chosen in (late, short, ~late & ~short))


def _by_time(recorded: Ints, gaps: Spans, called: pl.DataFrame, busy: Spans, unknown: Spans) -> tuple[int, ...]:
    """Before the launch, during it, after it beside other streams, after it alone, unknown."""
    known = called["call_start"].is_not_null().to_numpy()
    begins = np.clip(called["call_start"].fill_null(0).to_numpy(), gaps[:, 0], gaps[:, 1])
    returns = np.clip(called["call_end"].fill_null(0).to_numpy(), begins, gaps[:, 1])
    edges = (gaps[known, 0], begins[known], returns[known], gaps[known, 1])
    before, during, after = (np.stack(pair, axis=1) for pair in pairwise(edges))
    beside = int(overlap_each(after, busy).sum())
    alone = int(_recorded(after, unknown).sum()) - beside
    return (
        *(int(_recorded(part, unknown).sum()) for part in (before, during)),
        beside,
        alone,
        int(recorded[~known].sum()),
    )


LEADING = ("stream", "work", "gaps", "idle", "host_wait", "kernel_wait", "other", "span")
ANALYSIS = stream_idle = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
