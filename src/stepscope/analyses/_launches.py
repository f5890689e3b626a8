"""Which call started each piece of device work, and which operator made that call."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses._device import device_work
from stepscope.analyses._host import CALLS, HostTree, host_tree
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["Launches", "launches"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """`work` is device work; for its rows, `call` and `operator` are rows of `tree.frame`, -1 where unknown."""

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
    work = device_work(run)
    try:
        tree = host_tree(run)
    except MissingData:
        nothing = np.full(work.height, -1, dtype=np.int64)
        return Launches(work, None, nothing, nothing)
    keys = ("rank", "pid", "correlation")
    calls = tree.frame.select(*keys, "kind", "start").with_row_index("call").filter(pl.col("kind").is_in(CALLS))
    first = calls.filter(pl.col("correlation") != 0).sort("start").unique(keys, keep="first")
    joined = work.select(keys).join(first.select(*keys, "call"), on=keys, how="left", maintain_order="left")
    call = joined["call"].cast(pl.Int64).fill_null(-1).to_numpy().copy()
    return Launches(work, tree, call, np.where(call >= 0, tree.owner[call], -1))
