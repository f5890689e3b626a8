"""Lines of the user's own that hold the step up with work other than the model's, grouped by function.

Samples classed as host work count (see `_work`). Inside forward a traced window decides about the unclear ones: it
shows how much of forward is long gaps between operators, which is Python's time. The unclear samples of a function
count if it can fill the gaps: with all others that do certain host work, or else as the only one (or the only line)
whose samples take about as long.

The sampler catches a line of pure Python late, so samples of a short one fall to the operator after it. The gaps do not
know lines but are exact; where one function alone can fill them and its samples see a good part of them, its time is
theirs. Steps that a stall makes long are left to `stalls`. What a framework does besides the model (`_purposes`) is a
group of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.host.lib.comprehensions import with_comprehensions
from stepscope.analyses.host.lib.loop_frames import LoopFrames, innermost, loop_frames, with_purpose
from stepscope.analyses.host.lib.python_gaps import forward_gaps
from stepscope.analyses.lib.checkpoint_saving import saves
from stepscope.analyses.lib.line_places import STEP, line_place
from stepscope.analyses.steps.lib.samples import bounds, steady_samples
from stepscope.analyses.steps.lib.stall_groups import stall_groups
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.finding import Place
from stepscope.core.run import Run, chain

__all__ = ["HostLines", "host_lines"]

_FUNCTION = ["file", "function"]
PHASES = ("data_wait", "forward", "backward", "optimizer", "other")

SEEN = 1 / 3  # of the gaps that samples of a function must see: on busy cores the sampler comes late to pure Python
FITS = (SEEN, 1.25)  # of the gaps: samples and gaps are from different steps, and rarely agree better than this
CERTAIN = 3  # samples of certain host work, before its function is believed to hold the gaps
ALONE = 0.9  # of the host work in forward: what other lines show beside it are stray samples
PLACES = 3  # lines of a function that are named: more would hide the one that matters


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLines:
    """Host work of the lines of one function: mean time per steady step in ns with its 95 % interval.

    `saves`: whether the lines write a checkpoint, None if no sample tells (see `_checkpoints`). `purpose` is what a
    framework is at below them, None where nothing tells, and `inside` the innermost library function of most samples.
    `holds_loop`: the first line contains the training loop, or goes over the batches: it cannot leave the loop.
    """

    rank: int
    phases: tuple[str, ...]
    time: float
    low: float
    high: float
    samples: int
    places: tuple[Place, ...]
    saves: bool | None
    purpose: str | None
    inside: str
    holds_loop: bool


def host_lines(run: Run, *, only: int | None = None) -> tuple[HostLines, ...]:
    """Groups of lines for each rank, or for rank `only` at least, largest first. Raises MissingData without samples."""
    groups: tuple[HostLines, ...] = run.per_rank(_host_lines, chain, only=only)
    return _by_time(groups)


def _host_lines(run: Run) -> tuple[HostLines, ...]:
    stalled = pl.DataFrame(
        [(group.rank, step) for group in stall_groups(run) if group.certain for step in group.steps],
        schema={"rank": pl.Int32, "step": pl.Int64},
        orient="row",
    )
    samples = with_comprehensions(steady_samples(run).join(stalled, on=["rank", "step"], how="anti"))
    table = steady_steps(run)
    ordinary = table.join(stalled, on=["rank", "step"], how="anti")
    sums = ordinary.group_by("rank").agg(pl.col("duration", *PHASES).sum())
    per_rank = samples.group_by("rank").agg(pl.col("weight").sum(), pl.len().alias("samples"))
    per_rank = per_rank.join(sums, on="rank").join(table.group_by("rank").len("steps"), on="rank").sort("rank")
    groups: list[HostLines] = []
    for row in per_rank.iter_rows(named=True):
        own = samples.filter((pl.col("rank") == row["rank"]) & pl.col("file").is_not_null())
        step = row["duration"] / row["steps"]
        gaps = forward_gaps(run).get(row["rank"], 0.0) * row["forward"] / row["steps"]
        loop = loop_frames(own)
        chosen = with_purpose(_with_forward(own, gaps / step * row["weight"]), loop)
        groups += _groups(chosen, row, step, gaps, loop)
    return tuple(groups)


def _by_time(groups: Iterable[HostLines]) -> tuple[HostLines, ...]:
    return tuple(sorted(groups, key=lambda group: (-group.time, group.rank, group.places[0].file)))


def _with_forward(samples: pl.DataFrame, gaps: float) -> pl.DataFrame:
    """Samples of host work, with the unclear ones of forward that gaps, in ns of sample weight, vouch for."""
    host = samples.filter(pl.col("work") == "host")
    inside = samples.filter(pl.col("phase").eq("forward") & pl.col("work").is_in(["host", "unclear"]))
    unclear = inside.filter(pl.col("work") == "unclear")
    if gaps <= 0 or unclear.is_empty():
        return host
    certain = inside.group_by(_FUNCTION).agg(pl.col("weight").sum(), pl.col("work").eq("host").sum().alias("certain"))
    certain = certain.filter(pl.col("certain") >= CERTAIN)
    if certain.height:
        fitting = certain.filter(pl.col("weight").sum() <= FITS[1] * gaps)
        return pl.concat([host, unclear.join(fitting, on=_FUNCTION, how="semi", nulls_equal=True)])
    for key in (["file", "line"], _FUNCTION):
        times = unclear.group_by(key).agg(pl.col("weight").sum())
        fitting = times.filter(pl.col("weight").is_between(FITS[0] * gaps, FITS[1] * gaps))
        if fitting.height == 1:
            return pl.concat([host, unclear.join(fitting, on=key, how="semi", nulls_equal=True)])
    return host


def _groups(
    samples: pl.DataFrame, row: dict[str, float], step: float, gaps: float, loop: LoopFrames
) -> Iterable[HostLines]:
    """One group for each function; `row` holds weight and number of all samples of the rank's ordinary steps."""
    inside = int(samples.filter(pl.col("phase") == "forward")["weight"].sum())
    share = pl.col("weight").sum() / row["weight"]
    low, high = bounds(share, pl.lit(float(row["samples"])))
    summed = samples.group_by(*_FUNCTION, "purpose").agg(
        share.alias("share"), low.alias("low"), high.alias("high"), pl.len().alias("samples")
    )
    for found in summed.iter_rows(named=True):
        same = [pl.col(name).eq_missing(found[name]) for name in (*_FUNCTION, "purpose")]
        own = samples.filter(*same)
        phases = tuple(own["phase"].unique().sort())
        seen = found["share"] * step
        alone = phases == ("forward",) and int(own["weight"].sum()) >= ALONE * inside
        filled = gaps if alone and seen >= SEEN * gaps else 0.0
        most = sum(row[phase] or 0 for phase in phases) / row["steps"]  # the clock knows phases better than samples
        time = min(max(seen, filled), most)
        places = _places(own, row["weight"] * seen / time if time else row["weight"])
        yield HostLines(
            rank=int(row["rank"]),
            phases=phases,
            time=time,
            low=min(found["low"] * step, most),
            high=min(max(found["high"] * step, filled), most),
            samples=found["samples"],
            places=places,
            saves=saves(own.select("weight", "call", "leaf", "expression").iter_rows()),
            purpose=found["purpose"],
            inside=innermost(own),
            holds_loop=loop.hold(places[0]),
        )


def _places(samples: pl.DataFrame, whole: float) -> tuple[Place, ...]:
    """The lines with most of the samples; `whole` is the weight that stands for a whole step."""
    lines = samples.group_by("file", "line", "function").agg(pl.col("weight").sum(), pl.col("text").first())
    lines = lines.sort(["weight", "line"], descending=[True, False])
    least = 0.1 * int(lines["weight"].sum())  # a line with less of the time is beside the point
    rows = lines.filter(pl.col("weight") >= least).head(PLACES).iter_rows(named=True)
    return tuple(line_place(row, row["weight"] / whole, STEP) for row in rows)
