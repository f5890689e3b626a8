"""Gaps: the times in which a device has no work at all, with the cause of each and what the host did meanwhile.

One row is a gap between the first and the last work of a device; all gaps of a device add up to `device_time.idle`.
Times are ns. A gap is divided by why the work that ends it did not start earlier; the parts add up to the duration:

- `data_wait`: before the next launch, the process waited for a loader's next batch;
- `collective`: before the next launch, it was inside a collective that transfers on the host (gloo);
- `sync`: before the next launch, the launching thread was still inside a call that waits for the device or copies;
- `host`: the host had not begun the next launch, for any other reason;
- `launch`: the call that launches the next work was running;
- `latency`: launched, and started within the usual 100 µs;
- `stream`: as latency, but the next work was launched before the gap began and follows work of another stream;
- `unexplained`: launched, and not started for longer, though nothing in the trace was at work;
- `unknown`: the call that launched the next work is not in the trace, or the recording stopped before it.

A stream that waits for another, or for a collective that runs on the device, is no gap: the device works. `stream_idle`
looks at each stream by itself.

`class` is the largest part. The host is looked at on the thread that launches, until the next launch begins. Where the
class is `launch`, it is looked at during that call; where it lies behind it, during the whole gap. `activity` is the
innermost operator, annotation, call or Python frame that covers more than half of that time. Marks of steps do not
count. `module` is the innermost module that does. `file`, `line` and `function` are the innermost frame of the user's
own code around it. They are null where that was not recorded, or where nothing covers half. Definition: HTA's idle
breakdown (host wait: launched after the work before had ended), taken from streams to the device and from whole gaps to
the nanosecond.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.device.lib.device_gaps import BEFORE_LAUNCH, CAUSES, device_gaps
from stepscope.analyses.host.lib.host_activity import host_activity
from stepscope.analyses.lib.dominant_range import Stretches
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.markers import step_markers
from stepscope.analyses.lib.result_tables import RANK, shaped
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device"),
    Column("step", pl.Int64, None, "step that the host was in when the gap began; null: in none"),
    Column("start", pl.Int64, "ns", "end of the work before", "trace"),
    Column("duration", pl.Int64, "ns", "until the next work"),
    Column("class", pl.String, None, "the largest of the parts below"),
    Column("activity", pl.String, None, "what the host did meanwhile"),
    Column("module", pl.String, None, "module that the host was in"),
    Column("file", pl.String, None, "file of the user's code"),
    Column("line", pl.Int64, None, "line of the user's code"),
    Column("function", pl.String, None, "function of that line"),
    Column("next", pl.String, None, "work that ends the gap"),
    Column("operator", pl.String, None, "innermost operator or annotation that launched it; null: none known"),
    Column("call", pl.String, None, "call that launched it; null: unknown"),
    Column("data_wait", pl.Int64, "ns", "part: the loader's next batch"),
    Column("collective", pl.Int64, "ns", "part: a collective on the host"),
    Column("sync", pl.Int64, "ns", "part: a call that waits for the device or copies"),
    Column("host", pl.Int64, "ns", "part: any other work of the host"),
    Column("launch", pl.Int64, "ns", "part: the launch call"),
    Column("latency", pl.Int64, "ns", "part: launched, starts as fast as usual"),
    Column("stream", pl.Int64, "ns", "part: handed over from another stream"),
    Column("unexplained", pl.Int64, "ns", "part: launched, starts late, no reason in the trace"),
    Column("unknown", pl.Int64, "ns", "part: nothing known of the launch"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, the longest first. Raises MissingData without device work."""
    gaps = device_gaps(run)
    gaps = gaps.with_columns(_classes(gaps))
    meanwhile = host_activity(run, launches(run).tree, _watched(gaps))
    rows = gaps.hstack(meanwhile).with_columns(
        _steps(run, gaps),
        duration=pl.col("end") - pl.col("start"),
        operator=_names(run, gaps["operator"]),
        call=_names(run, gaps["call"]),
    )
    ordered: pl.DataFrame = shaped(rows, COLUMNS)[_longest_first(rows)]
    return ordered


def _longest_first(gaps: pl.DataFrame) -> npt.NDArray[np.int64]:
    """The order by rank, the longest first; of equally long ones by device and start."""
    start, device, duration, rank = (gaps[name].to_numpy() for name in ("start", "device", "duration", "rank"))
    return np.lexsort((start, device, -duration, rank))  # several times as fast as to sort a table of texts


def _watched(gaps: pl.DataFrame) -> Stretches:
    """The time of each gap in which the host is looked at, on the thread that launches what ends it."""
    start, end = gaps["start"].to_numpy(), gaps["end"].to_numpy()
    begins, returns = (np.clip(gaps[edge].fill_null(0).to_numpy(), start, end) for edge in ("call_start", "call_end"))
    before = gaps["class"].is_in(BEFORE_LAUNCH).to_numpy()
    launching = (gaps["class"] == "launch").to_numpy()
    since = np.where(launching, begins, start)
    until = np.where(launching, returns, np.where(before, begins, end))
    return Stretches(gaps["track"].to_numpy(), since, until)


def _steps(run: Run, gaps: pl.DataFrame) -> pl.Series:
    """The step of the host in which each gap begins."""
    markers = step_markers(run).select("rank", "step", began="start", ended="end").unique(maintain_order=True)
    rows = gaps.select("rank", "start").with_row_index("row").sort("start")
    found = rows.join_asof(
        markers.sort("began"), left_on="start", right_on="began", by="rank", strategy="backward",
        check_sortedness=False,
    )  # fmt: skip
    return found.select("row", step=pl.when(pl.col("start") < pl.col("ended")).then("step")).sort("row")["step"]


def _classes(gaps: pl.DataFrame) -> pl.Series:
    """The largest part of each gap, the first of several."""
    if gaps.is_empty():
        return pl.Series("class", [], dtype=pl.String)
    largest = gaps.select(CAUSES).to_numpy().argmax(axis=1)
    return pl.Series("class", CAUSES, dtype=pl.String).gather(largest)


def _names(run: Run, rows: pl.Series) -> pl.Series:
    """Names of rows of the host tree; null for -1."""
    tree = launches(run).tree
    if tree is None:
        return pl.Series([None] * len(rows), dtype=pl.String)
    return pl.select(pl.when(rows >= 0).then(tree.frame["name"].gather(rows.clip(0)))).to_series()


LEADING = ("step", "start", "duration", "class", "activity", "file", "line", "next", "operator", "module", "function")
ANALYSIS = idle_gaps = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
