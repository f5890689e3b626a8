"""Steps of a trace as the TensorBoard plugin draws them: the host's steps with the tail of their device work.

A step starts where the one before ends, or at its host start if that is later, and ends with the last device work that
calls inside it started, or at its host end if that is later. So the steps tile without overlap. Trailing steps without
device work, and then a last one with less than 80 % of the device events of the one before, are left out, because the
recording stopped before their work was done. Each traced window is adjusted by itself. Without markers there is one
step, 0, over the host's operators.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import OPERATIONS
from stepscope.analyses.lib.launch_calls import Launches, launches
from stepscope.analyses.lib.markers import step_markers
from stepscope.analyses.lib.result_tables import RECORD_TRACE, by_rank
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["adjusted_steps"]

# Of the device events of the step before; the plugin's figure.
_WHOLE_STEP = 0.8
_COLUMNS = ("rank", "window", "step", "start", "end")
_NOWHERE = int(np.iinfo(np.int64).min)
Ints = npt.NDArray[np.int64]


def adjusted_steps(run: Run) -> pl.DataFrame:
    """Columns rank, window, step, start, end. Raises MissingData in a run without step markers and operators."""
    return run.once(_adjusted_steps)


def _adjusted_steps(run: Run) -> pl.DataFrame:
    host_steps = _host_steps(run)
    try:
        found = launches(run)
    except MissingData:
        return host_steps
    work = {rank: _in_order(part) for rank, part in by_rank(_launched_work(found)).items()}
    windows = host_steps.partition_by("rank", "window", maintain_order=True)
    return pl.concat(_adjust(steps, work.get(steps["rank"][0])) for steps in windows)


def _host_steps(run: Run) -> pl.DataFrame:
    marked = step_markers(run).select(_COLUMNS)
    operations = run.optional("host", "rank", "kind", "start", "end").filter(
        pl.col("kind").is_in(OPERATIONS) & ~pl.col("rank").is_in(marked["rank"].implode())
    )
    preferred = (pl.col("kind") == "operator") | (pl.col("kind") != "operator").all().over("rank")
    whole = operations.filter(preferred).group_by("rank").agg(pl.col("start").min(), pl.col("end").max())
    numbered = whole.with_columns(window=pl.lit(0, dtype=pl.Int64), step=pl.lit(0, dtype=pl.Int64))
    steps = pl.concat([marked, numbered.select(_COLUMNS)])
    if steps.is_empty():
        raise MissingData("step markers or operators", how=RECORD_TRACE)
    return steps.sort("rank", "start", "end")


def _launched_work(found: Launches) -> pl.DataFrame:
    """Start and end of all device work, and of the call that started it (null where unknown)."""
    work = found.work.select("rank", "start", "end")
    if found.tree is None:
        nothing = pl.lit(None, dtype=pl.Int64)
        return work.with_columns(call_start=nothing, call_end=nothing)
    call = np.maximum(found.call, 0)
    known = pl.Series(found.call >= 0)
    times = {f"call_{edge}": pl.when(known).then(found.tree.frame[edge].gather(call)) for edge in ("start", "end")}
    return work.with_columns(**times)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Work:
    """Device work of a rank in order of the calls that started it; `by_end` are its rows in order of `end`."""

    start: Ints
    end: Ints
    call_start: Ints
    call_end: Ints
    by_end: Ints


def _in_order(work: pl.DataFrame) -> _Work:
    times = work.select("start", "end", pl.col("call_start", "call_end").fill_null(_NOWHERE))
    start, end, call_start, call_end = (column.to_numpy() for column in times.iter_columns())
    order = np.argsort(call_start, kind="stable")
    end = end[order]
    return _Work(
        start=start[order], end=end, call_start=call_start[order], call_end=call_end[order],
        by_end=np.argsort(end, kind="stable"),
    )  # fmt: skip


def _adjust(steps: pl.DataFrame, work: _Work | None) -> pl.DataFrame:
    if work is None:
        return steps
    starts, ends = steps["start"].to_numpy(), steps["end"].to_numpy()
    low = int(np.searchsorted(work.call_start, starts[0]))
    high = int(np.searchsorted(work.call_start, ends.max(), side="right"))
    inside = _step_of_calls(starts, ends, work.call_start[low:high], work.call_end[low:high])
    counts = np.bincount(inside[inside >= 0], minlength=len(starts))
    if not counts.any():
        return steps
    last = np.full(len(starts), _NOWHERE)
    np.maximum.at(last, inside[inside >= 0], work.end[low:high][inside >= 0])
    before = int(starts[0])
    if counts[0]:
        first_work = int(work.start[low:high][inside == 0].min())
        before = max(before, _last_end(work, first_work, low + np.flatnonzero(inside >= 0)))
    rows = []
    for start, end in zip(starts.tolist(), np.maximum(ends, last).tolist(), strict=True):
        start = max(before, start)
        before = max(end, start)
        rows.append((start, before))
    kept = _kept(counts)
    columns = {"start": [start for start, _ in rows], "end": [end for _, end in rows]}
    return steps.with_columns(pl.Series(name, times, dtype=pl.Int64) for name, times in columns.items()).head(kept)


def _last_end(work: _Work, until: int, but: Ints) -> int:
    """The last end before `until` of work that is none of the rows `but`; without any, the earliest time there is."""
    ended = int(np.searchsorted(work.end, until, sorter=work.by_end))
    last = work.by_end[max(ended - len(but) - 1, 0) : ended]  # so many that one is no row of `but`, if any is none
    others = last[~np.isin(last, but)]
    return int(work.end[others[-1]]) if len(others) else _NOWHERE


def _step_of_calls(starts: Ints, ends: Ints, call_start: Ints, call_end: Ints) -> Ints:
    """For each piece of work, the row of the step that holds its call whole, or -1."""
    row = np.searchsorted(starts, call_start, side="right") - 1
    held = (row >= 0) & (call_end <= ends[np.maximum(row, 0)])
    return np.where(held, row, -1)


def _kept(counts: npt.NDArray[np.intp]) -> int:
    last = int(np.nonzero(counts)[0][-1])
    if last > 0 and counts[last] < _WHOLE_STEP * counts[last - 1]:
        return last
    return last + 1
