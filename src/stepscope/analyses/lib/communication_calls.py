"""Calls that start device work directly inside an operator of communication, such as `c10d::allreduce_`.

Directly: the operator is the innermost one around the call. Kernels that an operator of another kind inside it starts,
such as a copy into a buffer, do not communicate.
"""

import numpy as np
import polars as pl

from stepscope.analyses.lib.host_events import CALLS, OPERATIONS, THREAD
from stepscope.analyses.lib.host_rows import host_rows, host_where
from stepscope.core.communication import COMMUNICATION_OPERATOR, COMPUTING_OPERATOR
from stepscope.core.intervals import spans, union, within
from stepscope.core.nesting import nest
from stepscope.core.run import Run
from stepscope.core.schema import DataType

__all__ = ["communicating_launches"]

_LAUNCH = ("rank", "pid", "correlation")
_SCHEMA: dict[str, DataType] = {
    "rank": pl.Int32, "pid": pl.String, "correlation": pl.Int64, "operator": pl.String,
}  # fmt: skip


def communicating_launches(run: Run) -> pl.DataFrame:
    """Calls by rank, pid and correlation, with the name of the operator of communication right around each."""
    return run.once(_communicating_launches)


def _communicating_launches(run: Run) -> pl.DataFrame:
    communicates = pl.col("name").str.contains(COMMUNICATION_OPERATOR) & ~pl.col("name").str.contains(
        COMPUTING_OPERATOR
    )
    host_rows(run)
    operators = host_where(run, OPERATIONS, communicates, *THREAD, "start", "end")
    if operators.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    inside = _inside(run, operators)
    track = inside.select(pl.struct(THREAD).rank("dense").cast(pl.Int64)).to_series().to_numpy()
    parent = nest(track, inside["start"].to_numpy(), inside["end"].to_numpy()).parent
    is_call = inside["kind"].is_in(CALLS).to_numpy()
    while (within := (parent >= 0) & is_call[parent] & is_call).any():  # a call of the runtime that calls the driver
        parent = np.where(within, parent[parent], parent)
    around = inside[np.maximum(parent, 0)].select(operator=pl.when(communicates).then("name"))
    calls = inside.with_columns(around["operator"], called=pl.Series(is_call & (parent >= 0)))
    calls = calls.filter(pl.col("called") & pl.col("operator").is_not_null() & (pl.col("correlation") != 0))
    return (
        calls.sort("start", maintain_order=True)
        .unique(_LAUNCH, keep="first", maintain_order=True)
        .select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())
    )


def _inside(run: Run, operators: pl.DataFrame) -> pl.DataFrame:
    """Operators, annotations and calls that lie in one of `operators` on its thread, and these themselves."""
    host = run.optional("host", *THREAD, "kind", "start", "end", "correlation")
    kept = host["kind"].is_in((*OPERATIONS, *CALLS)).to_numpy()
    near = np.zeros(host.height, dtype=np.bool_)
    times = spans(host)
    for (rank, pid, thread), part in operators.group_by(THREAD):
        here = host.select(
            (pl.col("rank") == rank) & pl.col("pid").eq_missing(pid) & pl.col("thread").eq_missing(thread)
        )
        rows = np.flatnonzero(here.to_series().to_numpy() & kept)
        near[rows] = within(times[rows], union(spans(part)))
    mask = pl.Series(near)
    return host.filter(mask).hstack(run.optional("host", "name").filter(mask))
