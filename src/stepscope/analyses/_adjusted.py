"""Steps of a trace as the TensorBoard plugin draws them: the host's steps with the tail of their device work.

A step starts where the one before ends, or at its host start if that is later, and ends with the last device work that
calls inside it started, or at its host end if that is later. So the steps tile without overlap. Trailing steps without
device work, and then a last one with less than 80 % of the device events of the one before, are left out, because the
recording stopped before their work was done. Each traced window is adjusted by itself. Without markers there is one
step, 0, over the host's operators.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses._host import OPERATIONS
from stepscope.analyses._launches import Launches, launches
from stepscope.analyses._markers import step_markers
from stepscope.analyses._tables import RECORD_TRACE
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["adjusted_steps"]

# Of the device events of the step before; the plugin's figure.
_WHOLE_STEP = 0.8
_COLUMNS = ("rank", "window", "step", "start", "end")
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
    work = _launched_work(found)
    windows = host_steps.partition_by("rank", "window", maintain_order=True)
    return pl.concat(_adjust(steps, work.filter(pl.col("rank") == steps["rank"][0])) for steps in windows)


def _host_steps(run: Run) -> pl.DataFrame:
    marked = step_markers(run).select(_COLUMNS)
    operations = run.optional("host").filter(
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


def _adjust(steps: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    starts, ends = steps["start"].to_numpy(), steps["end"].to_numpy()
    inside = _step_of_calls(starts, ends, work)
    counts = np.bincount(inside[inside >= 0], minlength=len(starts))
    if not counts.any():
        return steps
    device_start, device_end = work["start"].to_numpy(), work["end"].to_numpy()
    last = np.full(len(starts), np.iinfo(np.int64).min)
    np.maximum.at(last, inside[inside >= 0], device_end[inside >= 0])
    before = int(starts[0])
    if counts[0]:
        first_work = int(device_start[inside == 0].min())
        earlier = device_end[(inside < 0) & (device_end < first_work)]
        before = max(before, int(earlier.max(initial=before)))
    rows = []
    for start, end in zip(starts.tolist(), np.maximum(ends, last).tolist(), strict=True):
        start = max(before, start)
        before = max(end, start)
        rows.append((start, before))
    kept = _kept(counts)
    columns = {"start": [start for start, _ in rows], "end": [end for _, end in rows]}
    return steps.with_columns(pl.Series(name, times, dtype=pl.Int64) for name, times in columns.items()).head(kept)


def _step_of_calls(starts: Ints, ends: Ints, work: pl.DataFrame) -> Ints:
    """For each piece of work, the row of the step that holds its call whole, or -1."""
    nowhere = np.iinfo(np.int64).min
    call_start = work["call_start"].fill_null(nowhere).to_numpy()
    row = np.searchsorted(starts, call_start, side="right") - 1
    held = (row >= 0) & (work["call_end"].fill_null(nowhere).to_numpy() <= ends[np.maximum(row, 0)])
    return np.where(held, row, -1)


def _kept(counts: npt.NDArray[np.intp]) -> int:
    last = int(np.nonzero(counts)[0][-1])
    if last > 0 and counts[last] < _WHOLE_STEP * counts[last - 1]:
        return last
    return last + 1
