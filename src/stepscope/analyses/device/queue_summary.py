"""How full the launch queue of each stream is: an empty queue means that the device waits for the host.

One row is a stream with launches, from the first launch to the last start; times between traced windows count as an
empty queue. Times are ns. A launch waits from the begin of its call to the start of its work. The mean is weighted by
time; HTA's is over changes, and so says more about how often than about how long. `full` is the time with 1024 launches
or more, at which CUDA lets the host wait before it takes another one (HTA's CUDA_MAX_LAUNCH_QUEUE_PER_STREAM).
"""

import numpy as np
import polars as pl

from stepscope.analyses.device.lib.queues import Queue, queues
from stepscope.analyses.lib.result_tables import RANK, table
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device"),
    Column("stream", pl.String, None, "stream or queue"),
    Column("launches", pl.Int64, "count", "launches whose work runs on the stream"),
    Column("span", pl.Int64, "ns", "from the first launch to the last start"),
    Column("mean", pl.Float64, "count", "mean length over the span; null: the span is empty"),
    Column("max", pl.Int64, "count", "largest length"),
    Column("wait_mean", pl.Float64, "ns", "mean time of a launch in the queue"),
    Column("wait_max", pl.Int64, "ns", "longest time of a launch in the queue"),
    Column("empty", pl.Int64, "ns", "time with nothing in the queue"),
    Column("full", pl.Int64, "ns", "time with 1024 launches or more in the queue"),
)
_FULL = 1024  # launches


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, device and stream. Raises MissingData without launches of device work."""
    return table((_row(queue) for queue in queues(run)), COLUMNS)


def _row(queue: Queue) -> tuple[object, ...]:
    waits = queue.started - queue.launched
    span = int(queue.started.max() - queue.launched.min())
    lasts, length = np.diff(queue.time), queue.length[:-1]
    area = int((length * lasts).sum())
    assert area == int(waits.sum())
    return (
        queue.rank, queue.device, queue.stream, len(waits), span, area / span if span else None,
        int(queue.length.max(initial=0)), float(waits.mean()), int(waits.max()),
        span - int(lasts[length > 0].sum()), int(lasts[length >= _FULL].sum()),
    )  # fmt: skip


LEADING = ("stream", "launches", "mean", "max", "wait_mean", "empty", "full", "wait_max", "span")
ANALYSIS = queue_summary = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
