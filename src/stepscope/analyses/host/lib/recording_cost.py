"""What a profiler costs the host for each event that it records, estimated from the trace itself.

It works at the start and at the end of an event. From the start of a call to the start of the first call inside it, it
does the work of one start, and the program what it must do in between; the same with ends. So the shortest of both
distances together tell what an event costs at its best; with what it writes it costs WHOLE times as much on average.
Distances are taken between events of a kind, as a frame of Python costs less than an operator with its shapes. A call
of the runtime holds no other: of two that follow each other at once, the distance is the end of one and the start of
the next.

Where a trace holds too few pairs of a kind, its events count with the cost that MEASURED has.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.trace_phases import traced_steps
from stepscope.core.nesting import nest
from stepscope.core.run import Run

__all__ = ["KINDS", "MEASURED", "RecordingCost", "recording_costs", "recording_per_step"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Kind = Literal["operator", "python", "call", "memory"]

KINDS: tuple[Kind, ...] = ("operator", "python", "call", "memory")
_KIND_OF = {"operator": 0, "annotation": 0, "python": 1, "runtime": 2, "driver": 2}
MEASURED: dict[Kind, float] = {"operator": 600.0, "python": 450.0, "call": 1_000.0, "memory": 100.0}
"""ns: about what bench/recording_cost.py shows of torch 2.13 on a CPU; of calls of a device's runtime an assumption."""

WHOLE = 2.3
"""A profiled step of small operators takes longer by 1.7 to 2.5 times the shortest distances of its events, by
bench/recording_cost.py."""

SHORTEST = 0.1  # of the distances: their mean tells, as old clocks do not resolve single ones
ENOUGH = 100  # pairs of a kind, before their distances are believed
LOOKED_AT = 200_000  # events of a rank: more tell no more about the shortest


@dataclass(frozen=True, slots=True, eq=False)
class RecordingCost:
    """`per_event` is in ns by kind, `events` how many of each kind the rank has; `start` and `cost` are by event."""

    rank: int
    per_event: dict[Kind, float]
    events: dict[Kind, int]
    start: Ints
    cost: Floats

    def until(self, moments: Ints) -> Floats:
        """ns that recording had cost by each moment, on all threads of the rank that `recording_costs` looked at."""
        return np.concatenate(([0.0], np.cumsum(self.cost)))[np.searchsorted(self.start, moments)]


def recording_costs(run: Run) -> dict[int, RecordingCost]:
    """By rank, of the ranks with host events."""
    return run.once(_recording_costs)


def recording_per_step(run: Run, rank: int) -> float:
    """ns of a mean traced step that are the cost of recording; 0 without traced steps."""
    cost = recording_costs(run).get(rank)
    steps = np.array([(step.start, step.end) for step in traced_steps(run) if step.rank == rank], dtype=np.int64)
    if cost is None or not len(steps):
        return 0.0
    return float((cost.until(steps[:, 1]) - cost.until(steps[:, 0])).mean())


def _recording_costs(run: Run) -> dict[int, RecordingCost]:
    host = run.where("host", pl.col("kind").is_in(list(_KIND_OF)), "rank", "pid", "thread", "kind", "start", "end")
    host = host.with_columns(kind=pl.col("kind").replace_strict(_KIND_OF, return_dtype=pl.Int8))
    memory = run.optional("memory", "rank", "time").select("rank", start="time")
    ranks = host["rank"].unique().drop_nulls().sort().to_list()
    return {
        rank: _of_rank(rank, host.filter(pl.col("rank") == rank), memory.filter(pl.col("rank") == rank))
        for rank in ranks
    }


def _of_rank(rank: int, host: pl.DataFrame, memory: pl.DataFrame) -> RecordingCost:
    found = MEASURED | {name: WHOLE * time for name, time in _distances(host.head(LOOKED_AT)).items()}
    kind, start = host["kind"].to_numpy(), host["start"].to_numpy()
    each = np.array([found[name] for name in KINDS])
    starts = np.concatenate((start, memory["start"].to_numpy()))
    costs = np.concatenate((each[kind], np.full(memory.height, found["memory"])))
    order = np.argsort(starts, kind="stable")
    events = {name: int((kind == at).sum()) for at, name in enumerate(KINDS)} | {"memory": memory.height}
    return RecordingCost(rank, found, events, starts[order], costs[order])


def _distances(host: pl.DataFrame) -> dict[Kind, float]:
    track = host.select(pl.struct("pid", "thread").rank("dense").cast(pl.Int64)).to_series().to_numpy()
    start, end, kind = (host[name].to_numpy() for name in ("start", "end", "kind"))
    nesting = nest(track, start, end)
    parent, by_start = nesting.parent, nesting.order
    by_end = np.lexsort((nesting.depth * -1, end, track))
    outer, inner = by_start[:-1], by_start[1:]
    begins = _alike(parent[inner] == outer, kind, outer, inner, start[inner] - start[outer])
    inner, outer = by_end[:-1], by_end[1:]
    ends = _alike(parent[inner] == outer, kind, outer, inner, end[outer] - end[inner])
    one, other = by_start[:-1], by_start[1:]
    follows = (parent[one] == parent[other]) & (track[one] == track[other])
    between = _alike(follows, kind, one, other, start[other] - end[one])
    found: dict[Kind, float] = {}
    for at, name in enumerate(KINDS):
        if len(begins[at]) >= ENOUGH and len(ends[at]) >= ENOUGH:
            found[name] = _shortest(begins[at]) + _shortest(ends[at])
        elif name == "call" and len(between[at]) >= ENOUGH:
            found[name] = _shortest(between[at])
    return found


def _alike(pairs: npt.NDArray[np.bool_], kind: Ints, one: Ints, other: Ints, distance: Ints) -> list[Ints]:
    """The distances of the pairs that are of one kind, by kind."""
    pairs = pairs & (kind[one] == kind[other]) & (distance >= 0)
    return [distance[pairs & (kind[one] == at)] for at in range(len(KINDS))]


def _shortest(distances: Ints) -> float:
    """The mean of the shortest: a mean, as clocks that count in µs make most of them 0 or 1."""
    count = max(1, int(len(distances) * SHORTEST))
    return float(np.partition(distances, count - 1)[:count].mean())
