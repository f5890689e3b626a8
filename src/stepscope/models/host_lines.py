"""The lines of a rank that limits itself on the host, where no single function can be blamed for it.

Samples inside forward do not tell an operator from a loop of pure Python, and Python between small operators is in no
line of the user's at all. But time that nothing computes in passes somewhere: the lines that samples meet most often
are where to look.
"""

from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound.bound import bound
from stepscope.analyses.bound.lib.cpu_shares import LOOP
from stepscope.analyses.bound.lib.thresholds import LIMIT
from stepscope.analyses.host.lib.host_lines import HostLines, host_lines
from stepscope.analyses.host.lines import lines
from stepscope.analyses.lib.line_places import STEP, line_place
from stepscope.analyses.operators.lib.looped_optimizer import looped_optimizers
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.analyses.steps.lib.stall_groups import stall_groups
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Title
from stepscope.core.run import Run

__all__ = [
    "FOLLOWS",
    "MIN_SAMPLES",
    "MIN_SHARE",
    "MIN_TIME",
    "SURE_SHARE",
    "LineGroup",
    "SpreadLines",
    "line_finding",
    "line_groups",
    "spread_lines",
]

MIN_SHARE = 0.05
"""Of the step: a smaller gain drowns in the noise between two runs."""

SURE_SHARE = 0.02
"""The low end of the share's interval: five samples of two hundred by chance stay below it."""

MIN_SAMPLES = 5
"""Fewer samples name no line."""

MIN_TIME = 200_000
"""ns per step, absolute: a handful of calls into torch take as long, and no user can remove those."""

LEAST = 0.68  # of the sampled time: a fix keeps a part of the cost; measured from 0.65 up
FOLLOWS = 1.2
"""Of a line's time: planted lines saved up to 1.4 of it, mostly 1.0, as what follows them gets faster, too."""

UNSURE = 1.13  # of the sampled time: few samples may have missed as much, and a range twice as wide says nothing


LINES = 3  # as many as a reader looks at
HALF = 0.5  # of the host's time: lines with less of it do not explain it


@dataclass(frozen=True, slots=True, kw_only=True)
class LineGroup:
    """Lines of one function that hold the step up, on all ranks where they do: the worst of these with its mean `step`
    in ns, and the time per step of each."""

    worst: HostLines
    step: float
    times: dict[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadLines:
    """Where the host time (ns per step of `step`) of a rank passes that neither stalls nor a looping optimizer hold.

    `time` is that of the lines, as samples tell.
    `computes`: they mostly call the model, so that the time is the framework's own between operators.
    """

    rank: int
    host: float
    step: float
    time: float
    computes: bool
    places: tuple[Place, ...]


def line_groups(run: Run) -> tuple[LineGroup, ...]:
    """Functions that take MIN_SHARE of the steps with work other than the model's; MissingData without samples."""
    means = dict(enough_steps(run).group_by("rank").agg(pl.col("duration").mean()).iter_rows())
    by_place: dict[tuple[str, str], list[HostLines]] = {}
    for group in host_lines(run):
        step = means.get(group.rank)
        sure = group.samples >= MIN_SAMPLES and group.time >= MIN_TIME
        if step and sure and group.time >= MIN_SHARE * step and group.low >= SURE_SHARE * step:
            by_place.setdefault((group.places[0].file, group.places[0].symbol), []).append(group)
    return tuple(_of_ranks(groups, means) for groups in by_place.values())


def _of_ranks(groups: list[HostLines], means: dict[int, float]) -> LineGroup:
    worst = max(groups, key=lambda group: group.time)
    times: dict[int, float] = {}
    for group in groups:
        times[group.rank] = times.get(group.rank, 0.0) + group.time
    return LineGroup(worst=worst, step=means[worst.rank], times=times)


def line_finding(group: LineGroup, title: Title, advice: tuple[Advice, ...], follows: float = FOLLOWS) -> Finding:
    """What is said of a group: the same of all rules, but for title and advice.

    `follows` is the most that goes with the time, in times of it, as what comes after the lines gets faster, too.
    """
    worst, step = group.worst, group.step
    high = min(follows * min(worst.high, UNSURE * worst.time), step)
    return Finding(
        title=title,
        cause="model" if "forward" in worst.phases else "scheduling",  # the five kinds of cause know no "script"
        evidence=(
            Evidence(label="time per step", value=worst.time, unit="ns", source="lines", share=worst.time / step),
            Evidence(label="samples of these lines", value=worst.samples, unit="count", source="lines"),
        ),
        gain=Gain(
            low_ns=int(max(high / 2, LEAST * worst.time)),
            high_ns=int(high),
            step_ns=int(step),
            basis="sampled time of these lines, and of code that they slow down",
            confidence="structural",
            pool="host",
        ),
        advice=advice,
        ranks=tuple(sorted(group.times)),
        where=worst.places,
    )


def spread_lines(run: Run) -> tuple[SpreadLines, ...]:
    """One row for each rank whose limit is the host. Raises MissingData without steps or samples."""
    limited = bound(run).filter(pl.col("limit") == "host").select("rank", "host", "step").rows()
    optimizers = _looped(run) if limited else {}
    held = _held(run, optimizers) if limited else {}
    rows = ((rank, host * step - held.get(rank, 0.0), step) for rank, host, step in limited)
    told = {rank: ("data_wait", "optimizer") if rank in optimizers else ("data_wait",) for rank, *_ in limited}
    return tuple(_of_rank(run, *row, told[row[0]]) for row in rows if row[1] >= LIMIT * row[2])


def _looped(run: Run) -> dict[int, float]:
    """Time of the optimizer (ns per step) of each rank on which it loops over its parameters; another rule says it."""
    try:
        return {found.rank: found.time for found in looped_optimizers(run)}
    except MissingData:
        return {}


def _held(run: Run, optimizers: dict[int, float]) -> dict[int, float]:
    """Host time (ns per step) of each rank that other checks name the cause of."""
    steps = dict(steady_steps(run).group_by("rank").len().iter_rows())
    held = dict.fromkeys(steps, 0.0)
    for group in stall_groups(run):
        if group.certain:
            held[group.rank] += group.excess / steps[group.rank]
    for rank, time in optimizers.items():
        held[rank] += LOOP * time
    return held


def _of_rank(run: Run, rank: int, host: float, step: float, told: tuple[str, ...]) -> SpreadLines:
    """The lines of a rank; `told` are the phases that other rules name."""
    own = lines(run).filter(
        (pl.col("rank") == rank) & ~pl.col("phase").is_in(told) & pl.col("file").is_not_null()
        & pl.col("work").is_in(["host", "unclear", "model"])
    )  # fmt: skip
    if own.is_empty():
        raise MissingData("samples of lines", how="run it with `stepscope run -- COMMAND`, without `--lines none`")
    outside = own.filter(pl.col("work") != "model")
    computes = int(outside["time"].sum()) < HALF * host
    rows = (
        (own if computes else outside)
        .group_by("file", "line", "function")
        .agg(pl.col("time").sum(), pl.col("text").first())
    )
    rows = rows.sort(["time", "file", "line"], descending=[True, False, False]).head(LINES)
    # lines that call the model hold operators, too: their share is no part of the host's
    share = None if computes else pl.col("time").clip(upper_bound=step) / step
    places = tuple(line_place(row, row["share"], STEP) for row in rows.with_columns(share=share).iter_rows(named=True))
    time = min(float(rows["time"].sum()), host)
    return SpreadLines(rank=rank, host=host, step=step, time=time, computes=computes, places=places)
