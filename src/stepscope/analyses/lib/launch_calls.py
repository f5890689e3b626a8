"""Which call started each piece of device work, and which operator made that call."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.host_events import HostTree, host_tree
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["Launches", "launches", "launches_of"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """For the rows of `device_work`, `call` and `operator` are rows of `tree.frame`, -1 where unknown.

    `work` is device work with pid, correlation and name.
    """

    work: pl.DataFrame
    tree: HostTree | None
    call: Ints
    operator: Ints


def launches(run: Run) -> Launches:
    """Join device work with its launches: equal correlation (not 0) within a process, then by time on the thread.

    `tree` is None in a trace without host events. Raises MissingData without device work.
    """
    return run.once(_launches)


def _launches(run: Run) -> Launches:
    return launches_of(run, device_work(run, "pid", "correlation", "name"))


def launches_of(run: Run, work: pl.DataFrame) -> Launches:
    """As `launches`, for other rows of `device` with rank, pid and correlation."""
    try:
        tree = host_tree(run)
    except MissingData:
        nothing = np.full(work.height, -1, dtype=np.int64)
        return Launches(work, None, nothing, nothing)
    call = np.full(work.height, -1, dtype=np.int64)
    for rank, pid in work.select("rank", "pid").unique().drop_nulls().iter_rows():
        of_process = (pl.col("rank") == rank) & (pl.col("pid") == pid)
        rows = np.flatnonzero(tree.of_threads(of_process) & tree.calls)
        asked = np.flatnonzero(work.select(of_process).to_series().to_numpy())
        call[asked] = _first_calls(tree.frame, rows, work["correlation"].gather(asked))
    return Launches(work, tree, call, np.where(call >= 0, tree.owner[call], -1))


def _first_calls(host: pl.DataFrame, rows: Ints, correlation: pl.Series) -> Ints:
    """For each correlation id of a process, the first to start of those calls of it, in `rows`, that have it, or -1."""
    ids, wanted = (column.fill_null(0).to_numpy() for column in (host["correlation"].gather(rows), correlation))
    order = np.lexsort((host["start"].gather(rows).to_numpy(), ids))
    rows, ids = rows[order], ids[order]
    if not len(ids):
        return np.full(len(wanted), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where((wanted != 0) & (ids[at] == wanted), rows[at], -1)
