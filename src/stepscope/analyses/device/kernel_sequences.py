"""Sequences of kernels that operators launch again and again: candidates for a fused kernel.

One row is an operator and the sequence of device work that one call launches, with the number of calls that launch
exactly this. It takes two kernels to be one, and an operator with more than 64 is a part of a model, not a candidate.
Each sequence stands once, where operators that call each other launch the same: `operator` is the innermost of them,
`called_by` the outermost. Times are ns, summed over the calls. `between` is the time from the first start to the last
end of a sequence that none of its work fills. Definition: HTA's frequent kernel sequences, of all operators.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.device.lib.sequences import (
    LONGEST,
    LaunchedWork,
    by_group,
    launched_work_of,
    operator_above,
    sequences,
    spelled,
)
from stepscope.analyses.lib.group_cummax import reached_before
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE_ON_GPU, shaped
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("operator", pl.String, None, "innermost operator that launches the whole sequence"),
    Column("called_by", pl.String, None, "outermost operator that launches nothing else; may be the same"),
    Column("length", pl.Int64, "count", "kernels, copies and sets in the sequence"),
    Column("calls", pl.Int64, "count", "how often the sequence occurred"),
    Column("host_total", pl.Int64, "ns", "time of the host in the outermost operator"),
    Column("device_total", pl.Int64, "ns", "sum of the durations of the work"),
    Column("between", pl.Int64, "ns", "time between the pieces of work in which none of them runs"),
    Column("sequence", pl.List(pl.String), None, "names in order of launch"),
)
Ints = npt.NDArray[np.int64]
_EACH = dict.fromkeys(("rank", "key", "length", "at", "device", "first", "between"), pl.Int64)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, the longest time on the device first. Raises MissingData without calls that launch work."""
    found = launches(run)
    if found.tree is None or not (found.call >= 0).any():
        raise MissingData("operators that launch device work", how=RECORD_TRACE_ON_GPU)
    outer, rows, inner = _pairs(operator_above(run), found.call)
    work = launched_work_of(run, found.tree, rows, outer)
    at, length = by_group(work)
    each = _each_call(work, at, length)
    operator, names = work.group[at], found.tree.name
    duration = found.tree.frame.select(host=pl.col("end") - pl.col("start")).to_series().gather(operator)
    sums = _sums(each.with_columns(duration, operator=names.gather(inner[operator]), called_by=names.gather(operator)))
    sequence = spelled(run, work, sums["at"].to_numpy(), sums["length"].to_numpy())
    return shaped(sums.with_columns(sequence=sequence), COLUMNS)


def _pairs(above: Ints, call: Ints) -> tuple[Ints, Ints, Ints]:
    """Outermost operators of sequences beside rows of their work; and for each row of the tree its innermost operator.

    `above` are the operators around the rows. One that launches just what the operator around it does is no sequence
    of its own.
    """
    at = np.where(call >= 0, above[call], -1)
    work, around = np.arange(len(call)), at
    rows, operators = [], []
    while len(work):
        work, around = work[around >= 0], around[around >= 0]
        rows.append(work)
        operators.append(around)
        around = above[around]
    row, operator = np.concatenate(rows), np.concatenate(operators)
    count = np.bincount(operator, minlength=len(above))
    alike = (count > 0) & (above >= 0) & (count[above] == count)
    inner = np.arange(len(above))
    inner[above[alike]] = np.nonzero(alike)[0]
    while (inner[inner] != inner).any():
        inner = inner[inner]
    chosen = ~alike[operator] & (count[operator] >= 2) & (count[operator] <= LONGEST)
    return operator[chosen], row[chosen], inner


def _each_call(work: LaunchedWork, at: Ints, length: Ints) -> pl.DataFrame:
    """One row per call of an operator, whose work begins in row `at`: rank, key, length, device, between, first."""
    if not len(at):
        return pl.DataFrame(schema=_EACH)
    in_time = work[np.lexsort((work.end, work.start, work.group))]
    until = reached_before(in_time.group, in_time.end)
    gap = np.where(until < in_time.start, in_time.start - until, 0)
    gap[at] = 0  # nothing is before the first
    columns = {
        "rank": work.rank[at],
        "key": sequences(work, at, length),
        "length": length,
        "at": at,
        "device": np.add.reduceat(work.end - work.start, at),
        "first": np.minimum.reduceat(work.index, at),
        "between": np.add.reduceat(gap, at),
    }
    return pl.DataFrame(columns, schema=_EACH)


def _sums(each: pl.DataFrame) -> pl.DataFrame:
    rows = each.group_by("rank", "operator", "called_by", "key").agg(
        pl.col("length", "at").first(),
        calls=pl.len(),
        host_total=pl.col("host").sum(),
        device_total=pl.col("device").sum(),
        between=pl.col("between").sum(),
        first=pl.col("first").min(),
    )
    return rows.sort("rank", "device_total", "first", "length", descending=[False, True, False, True])


LEADING = ("operator", "length", "calls", "device_total", "host_total", "between", "sequence", "called_by")
ANALYSIS = kernel_sequences = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
