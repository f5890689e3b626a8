"""Where the wall time of the whole run went, from the start of the command to its end.

A row is a part of the time of a rank; the parts add up to its wall time exactly. Times are ns. Parts, in this order:

- start: until the first step, so imports, data sets and the model;
- warm-up: the first three steps, with what is compiled in them;
- data wait, host, computing, communication and copies: the other steps, in the shares of `bound`, without long steps;
- long steps: what validation, checkpoints and other stalls take above an ordinary step;
- other: what `bound` does not tell of a step, and time between steps;
- recording: what stepscope's traced steps took more than others, and its work between steps beside them;
- end: from the last step to the end of the command.

`steps` is the number of steps in the part. A part without time is left out. A job that still runs has no end yet.
"""

from collections.abc import Mapping

import polars as pl

from stepscope.analyses.bound.bound import bound
from stepscope.analyses.lib.result_tables import RANK, RECORD_STEPS
from stepscope.analyses.steps.stalls import stalls
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.analyses.steps.steps import steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column, polars_schema

__all__ = ["ANALYSIS", "run_time"]

COLUMNS = (
    RANK,
    Column("part", pl.String, None, "start, warm-up, data wait, host, computing, communication, copies, …"),
    Column("duration", pl.Int64, "ns", "wall time"),
    Column("share", pl.Float64, "ratio", "duration / wall time of the rank"),
    Column("steps", pl.Int64, "count", "steps in it; null: it is no part of steps"),
)
_OF_STEP = {
    "data wait": "input", "host": "host", "computing": "device", "communication": "communication", "copies": "memory",
}  # fmt: skip
"""Parts, by the column of `bound` that says which share of a step they are."""
_SHORTENED = ("host", "computing", "other", "data wait", "communication", "copies")
"""Parts that long steps are taken from, in this order: most of them are Python and file I/O."""
_ORDER = ("start", "warm-up", *_OF_STEP, "long steps", "other", "recording", "end")
_TAGS = pl.col("tags").list
_TRACED = _TAGS.contains("traced") | _TAGS.contains("tracing")
_WARM = _TAGS.contains("warm-up")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, in the order of the parts. Raises MissingData where the probe timed no step after warm-up."""
    timed = steps(run).filter(pl.col("clock") != "kineto").with_columns(time=pl.col("duration") * pl.col("weight"))
    if timed.is_empty():
        raise MissingData("wall time of the whole run", how=RECORD_STEPS)
    steady_steps(run)  # raises where all steps were warm-up
    rows = [row for (rank,), own in timed.group_by("rank", maintain_order=True) for row in _of_rank(run, rank, own)]
    return pl.DataFrame(rows, schema=polars_schema(COLUMNS), orient="row")


def _of_rank(run: Run, rank: object, own: pl.DataFrame) -> list[tuple[object, ...]]:
    first, last = int(own["start"].min()), int(own["end"].max())  # type: ignore[arg-type]
    began, ended = (_moment(run, key) for key in ("started_epoch_ns", "ended_epoch_ns"))
    wall = max(ended or last, last) - min(began or first, first)
    warm, ordinary = own.filter(_WARM), own.filter(~_WARM)
    traced = ordinary.filter(_TRACED)
    mean = steady_steps(run).filter(pl.col("rank") == rank)["duration"].mean() or 0.0
    extra = max(0, int(traced["time"].sum()) - round(float(mean) * int(traced["weight"].sum())))  # type: ignore[arg-type]
    beside = _beside_traced(own)
    times = {
        "start": first - min(began or first, first),
        "warm-up": int(warm["time"].sum()),
        "recording": extra + beside,
        "end": max(ended or last, last) - last,
        **_split(run, rank, int(ordinary["time"].sum()) - extra, int(ordinary["weight"].sum())),
    }
    # The last of merged rows ends before the steps that it stands for: the rest of them is no end of the job.
    times["end"] -= max(0, min(times["end"], sum(times.values()) - wall))
    wall = max(wall, sum(times.values()))
    times["other"] += wall - sum(times.values())
    assert sum(times.values()) == wall
    counts = {"warm-up": int(warm["weight"].sum()), **dict.fromkeys(_OF_STEP, int(ordinary["weight"].sum()))}
    return [(rank, part, times[part], times[part] / wall, counts.get(part)) for part in _ORDER if times.get(part)]


def _split(run: Run, rank: object, whole: int, count: int) -> Mapping[str, int]:
    """`whole` ns of `count` steps by what limits them, and what of it long steps take above the others."""
    shares = next(bound(run).filter(pl.col("rank") == rank).iter_rows(named=True), {})
    times = {part: int(whole * (shares.get(column) or 0.0)) for part, column in _OF_STEP.items()}
    times["other"] = max(0, whole - sum(times.values()))
    long = sum(stalls(run).filter(pl.col("rank") == rank)["excess"].to_list()) * count
    times["long steps"] = 0
    for part in _SHORTENED:
        taken = min(times[part], long - times["long steps"])
        times[part] -= taken
        times["long steps"] += taken
    return times


def _beside_traced(own: pl.DataFrame) -> int:
    """Time between steps of which one was traced: there a profiler starts, ends and writes."""
    gaps = own.sort("start").select(gap=pl.col("start") - pl.col("end").shift(1), near=_TRACED | _TRACED.shift(1))
    return int(gaps.filter(pl.col("near"))["gap"].clip(lower_bound=0).sum())


def _moment(run: Run, key: str) -> int | None:
    """A time of the launcher's, ns since the epoch; None where it wrote none."""
    values = run.optional("meta").filter(pl.col("key") == key)["value"].drop_nulls()
    return next((int(value) for value in values if value.isdecimal()), None)


LEADING = ("rank", "part", "duration", "share", "steps")
ANALYSIS = run_time = Analysis(compute=compute, columns=COLUMNS, leading=LEADING)
