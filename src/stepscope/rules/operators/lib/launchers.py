"""Operators around others, and the device work that was launched inside of them."""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import HostTree
from stepscope.analyses.lib.launch_calls import launches
from stepscope.core.run import Run

__all__ = ["Bools", "inside", "launched_by", "launched_inside"]

Bools = npt.NDArray[np.bool_]


def inside(tree: HostTree, marked: Bools) -> Bools:
    """The rows of the tree that are marked, or lie in one that is."""
    found, around = marked.copy(), tree.nesting.parent.copy()
    while found.any() and len(rows := np.flatnonzero(around >= 0)):
        found[rows] |= found[around[rows]]
        around[rows] = around[around[rows]]  # twice as far out each time
    return found


def launched_by(run: Run, marked: Bools) -> pl.Series:
    """For each row of `device_work`, whether a marked row of the tree is the operator that launched it."""
    operator = launches(run).operator
    return pl.Series((operator >= 0) & marked[operator] if len(marked) else operator > len(operator))


def launched_inside(run: Run, names: pl.Expr) -> pl.Series:
    """For each row of `device_work`, whether it was launched in an operator or annotation whose `name` passes."""
    tree = launches(run).tree
    if tree is None:
        return pl.Series([False]).new_from_index(0, launches(run).work.height)
    return launched_by(run, inside(tree, tree.passing(names)))
