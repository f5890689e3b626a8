"""The one rank that the others wait for, if there is one, and what it does meanwhile."""

from collections import Counter
from dataclasses import dataclass
from math import sqrt
from statistics import median

import polars as pl

from stepscope.analyses.bound.lib.device_shares import idle_by_rank
from stepscope.analyses.communication.late_ranks import late_ranks
from stepscope.analyses.lib.trace_phases import traced_steps
from stepscope.analyses.operators.operators import operators
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["LateRank", "delay_by_late_rank", "late_rank"]

SURE = 3  # standard deviations above what chance gives: as rare as 1 in 700 where no rank is slow
ALWAYS = 3  # collectives, all of which a rank enters last: with so few only a long delay tells it from chance
LONG = 0.3  # of the step: no rank is late by as much, three times in a row, by chance
NEARLY_EACH = 0.9  # of the steps: in so many a rank begins its backward later than all others
MIN_STEPS = 20  # with so many that is no chance: 1 in 5,000 for two ranks that are alike
EARLIER = 0.05  # of the step, which the others are ahead by then: less is no work of its own
HALF = 0.5  # of the delay, which a longer wait for data or longer computing must account for to be its cause


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRank:
    """A rank that comes last to most collectives: `last` of `collectives`. Times are ns of an average step of `step`.

    `delay` is the time by which it comes after all others. `cause` is input, compute or unknown, and `extra` by how
    much longer than the median of the other ranks it waits for data or computes; 0 if unknown.
    """

    rank: int
    last: int
    collectives: int
    delay: float
    step: float
    cause: str
    extra: float


def late_rank(run: Run) -> LateRank | None:
    """The rank with the largest delay of those that are late for sure. Raises MissingData as `late_ranks` does."""
    return run.once(_late_rank)


def _late_rank(run: Run) -> LateRank | None:
    sums = late_ranks(run).group_by("rank").agg(
        pl.col("last", "collectives", "delay").sum(),
        pl.col("per_step").sum(), pl.col("uncertainty").max(),
        steps_known=pl.col("per_step").is_not_null().all(),
        expected=(pl.col("collectives") / pl.col("ranks")).sum(),
    )  # fmt: skip
    rows = sums.sort("delay", "rank", descending=[True, False]).iter_rows(named=True)
    late = [row for row in rows if _is_late(row) or _is_late_for_long(run, row) or _is_late_in_each_step(run, row)]
    if not late:
        return None
    row = late[0]
    step = _mean_step(run, row["rank"])
    delay = float(row["per_step"] if row["steps_known"] and step else row["delay"])
    cause, extra = _cause(run, row["rank"], delay) if step else ("unknown", 0.0)
    return LateRank(
        rank=row["rank"], last=row["last"], collectives=row["collectives"], delay=delay,
        step=step or _recorded(run, row["rank"]), cause=cause, extra=extra,
    )  # fmt: skip


def _is_late(row: dict[str, float]) -> bool:
    """True if a rank is last more often than halfway from chance to always, too often for chance, and by enough."""
    last, of, expected = row["last"], row["collectives"], row["expected"]
    if row["delay"] <= last * (row["uncertainty"] or 0):
        return False
    spread = sqrt(expected * (1 - expected / of))
    return 2 * last >= of + expected and last - expected >= SURE * spread


def _is_late_for_long(run: Run, row: dict[str, float]) -> bool:
    """True if a rank is last each time, and by so much of the step that a few times are enough."""
    step = _mean_step(run, int(row["rank"])) if row["last"] == row["collectives"] >= ALWAYS else None
    return step is not None and bool(row["steps_known"]) and row["per_step"] >= LONG * step


def _is_late_in_each_step(run: Run, row: dict[str, float]) -> bool:
    """True if a rank is last to most of a few collectives, and begins its backward last in nearly each recorded step.

    What a step does before backward waits for no other rank, so that the steps tell whose work is longer.
    """
    rank, last = int(row["rank"]), row["last"]
    step = _mean_step(run, rank) if 2 * last > row["collectives"] else None
    if step is None or row["delay"] <= last * (row["uncertainty"] or 0):
        return False
    ahead = _ahead(run, rank).to_list()
    sure = len(ahead) >= MIN_STEPS and sum(time > 0 for time in ahead) >= NEARLY_EACH * len(ahead)
    return sure and median(ahead) > EARLIER * step


def _ahead(run: Run, rank: int) -> pl.Series:
    """By what time in ns the last of the other ranks gets to its backward before this one, in steps of all of them."""
    before = pl.col("forward") + pl.col("data_wait").fill_null(0)
    steps = steady_steps(run).filter(pl.col("backward") > 0).select("rank", "step", before=before)
    others = steps.filter(pl.col("rank") != rank).group_by("step").agg(others=pl.col("before").max())
    own = steps.filter(pl.col("rank") == rank).join(others, on="step")
    return own.select(pl.col("before") - pl.col("others"))["before"].drop_nulls()


def _mean_step(run: Run, rank: int) -> float | None:
    """As in `bound`: on the clock of the device, where one computes."""
    try:
        mean = steady_steps(run).filter(pl.col("rank") == rank)["duration"].mean()
    except MissingData:
        return None
    if not isinstance(mean, int | float) or mean <= 0:
        return None
    device = idle_by_rank(run).get(rank)
    return float(mean) if device is None else device.step


def _recorded(run: Run, rank: int) -> float:
    """Length of what was recorded of a rank that marks no steps."""
    own = pl.col("rank") == rank
    ends = [run.optional(name, "rank", "start", "end").filter(own) for name in ("host", "device")]
    times = pl.concat([part.select("start", "end") for part in ends])
    return float(times.select(pl.col("end").max() - pl.col("start").min()).item() or 0)


def _cause(run: Run, rank: int, delay: float) -> tuple[str, float]:
    """The part of the step that is longer than the others' by at least half of the delay, and by how much."""
    extras = {name: _extra(times, rank) for name, times in (("input", _waits(run)), ("compute", _computing(run)))}
    name, extra = max(extras.items(), key=lambda item: item[1])
    return (name, extra) if extra >= HALF * delay else ("unknown", 0.0)


def _extra(times: dict[int, float], rank: int) -> float:
    others = [time for other, time in times.items() if other != rank]
    return times[rank] - median(others) if others and rank in times else 0.0


def _waits(run: Run) -> dict[int, float]:
    """Mean wait for data in a step, by rank."""
    means = steady_steps(run).group_by("rank").agg(pl.col("data_wait").mean()).drop_nulls()
    return dict(means.iter_rows())


def _computing(run: Run) -> dict[int, float]:
    """Mean time in a step in which a kernel computes, by rank; where the CPU computes, an operator."""
    kernels = {rank: row.compute for rank, row in idle_by_rank(run).items()}
    return kernels or _computing_on_hosts(run)


def _computing_on_hosts(run: Run) -> dict[int, float]:
    """Own time of operators per traced step, without collectives, which wait in theirs; nothing without a trace."""
    try:
        own = operators(run).filter(pl.col("name").str.starts_with("aten::"))
    except MissingData:
        return {}
    steps = Counter(step.rank for step in traced_steps(run))
    sums = own.group_by("rank").agg(pl.col("host_self").sum())
    return {rank: time / steps[rank] for rank, time in sums.iter_rows() if steps[rank]}


def delay_by_late_rank(run: Run, rank: int) -> float:
    """Time in ns of an average step for which a rank waits for the late one; 0 where nothing tells of one."""
    try:
        found = late_rank(run)
    except MissingData:
        return 0.0
    return found.delay if found is not None and found.rank != rank else 0.0
