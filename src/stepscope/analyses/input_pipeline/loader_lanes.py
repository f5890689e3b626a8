"""Timeline of each loader's workers and of the training process over some batches.

One row is an interval of a worker (null: the training process). The batches are from the middle of the longest run of
batches that were all recorded, within one epoch. Times are ns. The intervals of a worker do not overlap. Gaps were not
recorded.

A worker in fetch is `computing`, `waiting for a core` or `blocked` (on a disk, the network or a lock). The state is
what takes most of that fetch, by CPU time and the scheduler's count. It is `fetching` where these were not read.
`enqueueing` is passing the batch to the feeder thread. `sending` is that thread's serializing and writing while the
worker does nothing else. A worker that waits for indices is `idle, queue full` while training does not wait. While
training waits, it is `idle, out of order`, as in `loader_workers`. The training process is `training` or `data wait`.
"""

import numpy as np
import polars as pl

from stepscope.analyses.input_pipeline.loader_stages import IN_WORKERS, RECORD_LOADING
from stepscope.analyses.lib.result_tables import RANK, parts, table
from stepscope.core.errors import MissingData
from stepscope.core.intervals import Spans, clip, intersect, spans, subtract, total, union
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "loader_lanes"]

COLUMNS = (
    RANK,
    Column("loader", pl.Int64, None, "number of the DataLoader"),
    Column("worker", pl.Int32, None, "number of the worker; null: the training process"),
    Column("state", pl.String, None, "computing, blocked, idle, … (above)"),
    Column("start", pl.Int64, "ns", "begin", "run"),
    Column("end", pl.Int64, "ns", "end", "run"),
)

BATCHES = 12
"""Batches looked at: enough to see a pattern, few enough to see each."""

_FEWEST = 4  # batches one after the other: of fewer, which are the first ones, a picture misleads
_PER_WORKER = 3  # batches of each worker at least, so that two rounds of all workers are whole
_HOW = f"{IN_WORKERS}; of quick batches the recorder keeps few, so that it stays cheap"
_EACH = ("iterator", "epoch")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, loader, worker and time. Raises MissingData where no worker was recorded beside its training."""
    recorded = run.table("loader_spans", how=RECORD_LOADING).filter(pl.col("iterator").is_not_null())
    rows = [
        (rank, loader, worker, state, int(start), int(end))
        for own in parts(recorded.sort("rank", "loader", maintain_order=True), "rank", "loader")
        for rank, loader in own.select("rank", "loader").head(1).iter_rows()
        for worker, states in _lanes(own)
        for state, start, end in states
    ]
    if not rows:
        raise MissingData(f"{_FEWEST} batches of workers that were recorded one after the other", how=_HOW)
    return table(rows, COLUMNS)


def _lanes(own: pl.DataFrame) -> list[tuple[int | None, list[tuple[str, int, int]]]]:
    """The stretches of each worker and of the process that trains."""
    workers = own["worker"].drop_nulls().unique().sort()
    chosen = _stretch(own, max(BATCHES, _PER_WORKER * len(workers)))
    if chosen is None or not len(workers):
        return []
    iterator, start, end = chosen
    of_iterator = own.filter((pl.col("iterator") == iterator) & (pl.col("end") > start) & (pl.col("start") < end))
    waits = clip(spans(of_iterator.filter(pl.col("worker").is_null() & (pl.col("stage") == "wait"))), start, end)
    lanes: list[tuple[int | None, list[tuple[str, int, int]]]] = [
        (worker, _in_order(_of_worker(of_iterator.filter(pl.col("worker") == worker), waits, start, end)))
        for worker in workers
    ]
    training = subtract(np.array([[start, end]], dtype=np.int64), waits)
    return [*lanes, (None, _in_order({"data wait": waits, "training": training}))]


def _stretch(own: pl.DataFrame, most: int) -> tuple[int, int, int] | None:
    """Iterator, begin and end of at most so many batches in the middle of the longest run that was recorded whole."""
    single = own.filter(pl.col("weight") == 1)
    fetched = single.filter(pl.col("worker").is_not_null() & (pl.col("stage") == "fetch"))
    waits = single.filter(pl.col("worker").is_null() & (pl.col("stage") == "wait"))
    waits = waits.join(fetched, on=[*_EACH, "batch"], how="semi", nulls_equal=True)
    if waits.is_empty():
        return None
    waits = waits.sort(*_EACH, "batch").with_columns(run=(pl.col("batch") - pl.int_range(pl.len())).over(_EACH))
    longest = max(waits.partition_by(*_EACH, "run", maintain_order=True), key=lambda one: one.height)
    if longest.height < _FEWEST:
        return None
    first = max(0, (longest.height - most) // 2)
    chosen = longest.slice(first, most + 1)
    end = chosen["start"][-1] if chosen.height > most else chosen["end"][-1]
    return chosen["iterator"][0], chosen["start"][0], end


def _of_worker(own: pl.DataFrame, waits: Spans, start: int, end: int) -> dict[str, Spans]:
    """Disjoint sets of time of a worker, by state; earlier ones take from later ones."""
    fetches = own.filter(pl.col("stage") == "fetch").with_columns(state=_fetching())
    found = {state: _of_stage(part, start, end) for (state,), part in fetches.group_by("state", maintain_order=True)}
    idle = _of_stage(own.filter(pl.col("stage") == "index wait"), start, end)
    feeder = _of_stage(own.filter(pl.col("stage").is_in(["serialize", "send"])), start, end)
    found = {str(state): part for state, part in found.items()} | {
        "enqueueing": _of_stage(own.filter(pl.col("stage") == "put"), start, end),
        "sending": feeder,
        "idle, out of order": intersect(idle, waits),
        "idle, queue full": idle,
    }
    taken, states = np.empty((0, 2), dtype=np.int64), {}
    for state, part in found.items():
        states[state] = subtract(part, taken)
        taken = union(np.concatenate((taken, part)))
    assert sum(map(total, states.values())) == total(taken)
    return states


def _of_stage(part: pl.DataFrame, start: int, end: int) -> Spans:
    return clip(spans(part), start, end)


def _fetching() -> pl.Expr:
    """What most of a fetch was; a null of its figures means that they were not read."""
    length, cpu, core = pl.col("end") - pl.col("start"), pl.col("cpu"), pl.col("core_wait")
    blocked = length - cpu - core
    return (
        pl.when(cpu.is_null() | core.is_null())
        .then(pl.lit("fetching"))
        .when((cpu >= core) & (cpu >= blocked))
        .then(pl.lit("computing"))
        .when(core >= blocked)
        .then(pl.lit("waiting for a core"))
        .otherwise(pl.lit("blocked"))
    )


def _in_order(states: dict[str, Spans]) -> list[tuple[str, int, int]]:
    pieces = ((state, int(start), int(end)) for state, part in states.items() for start, end in part)
    return sorted(pieces, key=lambda piece: piece[1:])


ANALYSIS = loader_lanes = Analysis(compute=compute, columns=COLUMNS, scope="rank")
