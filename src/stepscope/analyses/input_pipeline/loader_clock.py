"""Whether the times of workers, of the training process and of traces fit together: no effect before its cause.

One row is a clock on a rank that is compared with the training process's. For a worker: it cannot have taken the
indices of a batch before the training process began to send them, and the training process cannot have received a
batch before it was serialized. For a traced window: the recorder's `wait` for a batch happens inside the profiler's
`enumerate(DataLoader)` annotation, so it cannot begin before that or end after it.

`offset` is the clock's reading less the run's time line, as the process itself read both clocks. `error` is how far off
it may be. A worker has the offset 0 without an error: the monotonic clock of a host is one clock. Times may shift by
`low` to `high` before one of the `checked` events would come before its cause. So this range bounds the error of the
clock. It includes 0, unless there are `violations`: events before their cause. `batch` is then the one that is furthest
off.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.input_pipeline.loader_stages import RECORD_LOADING
from stepscope.analyses.lib.result_tables import RANK, by_rank, table
from stepscope.analyses.lib.wall_clock import Offset, Reading, offset_at
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "loader_clock"]

COLUMNS = (
    RANK,
    Column("clock", pl.String, None, "worker N, or window N: the trace of that window"),
    Column("loader", pl.Int64, None, "number of the DataLoader; null: a trace"),
    Column("offset", pl.Int64, "ns", "what the clock reads more than the time line of the run"),
    Column("error", pl.Int64, "ns", "how far off the offset may be; null: not recorded"),
    Column("checked", pl.Int64, "count", "events that were compared"),
    Column("violations", pl.Int64, "count", "of these, effects before their cause"),
    Column("low", pl.Int64, "ns", "least that may be added to its times, by these events"),
    Column("high", pl.Int64, "ns", "most that may be added to its times"),
    Column("batch", pl.Int64, None, "batch of the largest violation; null: there is none"),
)
LEADING = ("rank", "clock", "checked", "violations", "low", "high", "offset", "error", "loader", "batch")
_BATCH = ("loader", "iterator", "epoch", "batch")
_CALL = "enumerate(DataLoader)#"


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank: its workers, then its windows. Raises MissingData where nothing can be compared."""
    spans = run.table("loader_spans", how=RECORD_LOADING).filter(pl.col("iterator").is_not_null()).sort("rank", "start")
    rows = [row for rank, own in by_rank(spans).items() for row in (*_workers(rank, own), *_windows(run, rank, own))]
    if not rows:
        raise MissingData("spans of DataLoader workers, or of a traced window", how=RECORD_LOADING)
    return table(rows, COLUMNS)


def _workers(rank: int, spans: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    sent, received = (_times(spans, stage, "start") for stage in ("send index", "receive"))
    taken, serialized = (_times(spans.drop_nulls("worker"), stage, "end") for stage in ("index wait", "serialize"))
    lows = taken.join(sent, on=_BATCH, nulls_equal=True).with_columns(low=pl.col("start") - pl.col("end"))
    highs = serialized.join(received, on=_BATCH, nulls_equal=True).with_columns(high=pl.col("start") - pl.col("end"))
    both = pl.concat([lows, highs], how="diagonal").sort("loader", "worker")
    for (loader, worker), events in both.group_by("loader", "worker", maintain_order=True):
        yield (rank, f"worker {worker}", loader, 0, None, *_told(events))


def _times(spans: pl.DataFrame, stage: str, time: str) -> pl.DataFrame:
    chosen = spans.filter(pl.col("stage") == stage).unique(_BATCH, keep="first", maintain_order=True)
    return chosen.select(*_BATCH, time, *(["worker"] if time == "end" else []))


def _windows(run: Run, rank: int, spans: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    readings = run.optional("clock_readings").filter(pl.col("rank") == rank)
    traced = readings.filter(pl.col("source").str.starts_with("window"))
    if traced.is_empty():
        return
    calls = run.where(
        "host", (pl.col("rank") == rank) & pl.col("name").str.starts_with(_CALL), "start", "end"
    ).sort("start")  # fmt: skip
    every = [Reading(*row) for row in readings.select("time", "offset", "error").iter_rows()]
    waits = spans.filter((pl.col("stage") == "wait") & pl.col("worker").is_null())
    for (source,), own in traced.sort("time").group_by("source", maintain_order=True):
        begin, end = _edge(own["time"].min()), _edge(own["time"].max())
        found = offset_at(every, (begin + end) // 2)
        if found is not None:
            within = waits.filter((pl.col("start") >= begin) & (pl.col("end") <= end))
            events = _inside(within, calls, found)
            if events.height:
                yield (rank, source, None, found.offset, found.error, *_told(events))


def _edge(time: object) -> int:
    assert isinstance(time, int)
    return time


def _inside(waits: pl.DataFrame, calls: pl.DataFrame, found: Offset) -> pl.DataFrame:
    """Each wait with the call that begins nearest, and what both leave of the clock of the calls."""
    moved = calls.select(
        called=pl.col("start") - found.offset, returned=pl.col("end") - found.offset, at=pl.col("start") - found.offset
    )
    paired = waits.select("batch", "start", "end", at="start").join_asof(moved, on="at", strategy="nearest")
    return paired.drop_nulls("called").select(
        "batch", low=pl.col("end") - pl.col("returned"), high=pl.col("start") - pl.col("called")
    )


def _told(events: pl.DataFrame) -> tuple[object, ...]:
    """The columns from `checked` on."""
    off = pl.max_horizontal(pl.col("low"), -pl.col("high"))
    wrong = events.with_columns(off=off).filter(pl.col("off") > 0).sort("off", descending=True)
    return events.height, wrong.height, events["low"].max(), events["high"].min(), wrong["batch"].first()


ANALYSIS = loader_clock = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
