"""What the host did, nested per thread: operators and annotations, and the runtime and driver calls inside them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses._tables import RECORD_TRACE
from stepscope.core.errors import MissingData
from stepscope.core.nesting import Nesting, nest
from stepscope.core.run import Run

__all__ = ["CALLS", "OPERATIONS", "THREAD", "HostTree", "host_tree", "is_operator", "step_number"]

OPERATIONS = ("operator", "annotation")
CALLS = ("runtime", "driver")
THREAD = ("rank", "pid", "thread")
# Annotations that traces before torch 1.12 wrote as operators.
_ANNOTATIONS = r"^ProfilerStep#|^enumerate\(Data|^Optimizer\.|^(?:Distributed)?DataParallel\.forward$"
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class HostTree:
    """`frame` holds operators, annotations and calls, with `track` a number per thread; the arrays follow its rows.

    `owner` is the row of the innermost operator or annotation around a row, -1 without one.
    """

    frame: pl.DataFrame
    nesting: Nesting
    owner: Ints


def host_tree(run: Run) -> HostTree:
    """Nest the host events of a run by time. Raises MissingData without any operator, annotation or call."""
    return run.once(_host_tree)


def is_operator() -> pl.Expr:
    """Rows of host events that are operators, not annotations that an old trace calls so."""
    return (pl.col("kind") == "operator") & ~pl.col("name").str.contains(_ANNOTATIONS)


def step_number() -> pl.Expr:
    """The N of `ProfilerStep#N`, null for other names."""
    return pl.col("name").str.extract(r"^ProfilerStep#(\d+)").cast(pl.Int64)


def _host_tree(run: Run) -> HostTree:
    frame = run.optional("host").filter(pl.col("kind").is_in(OPERATIONS + CALLS)).sort("rank", "pid", "index")
    if frame.is_empty():
        raise MissingData("host events", how=RECORD_TRACE)
    tracks = frame.select(THREAD).unique(maintain_order=True).with_row_index("track")
    frame = frame.join(tracks, on=THREAD, how="left", maintain_order="left", nulls_equal=True)
    frame = frame.with_columns(pl.col("track").cast(pl.Int64))
    nesting = nest(frame["track"].to_numpy(), frame["start"].to_numpy(), frame["end"].to_numpy())
    is_call = frame["kind"].is_in(CALLS).to_numpy()
    return HostTree(frame, nesting, _owners(nesting.parent, is_call))


def _owners(parent: Ints, is_call: npt.NDArray[np.bool_]) -> Ints:
    owner = parent.copy()
    while True:
        inside_call = (owner >= 0) & is_call[owner]  # of -1 the test reads the last row, which the mask leaves out
        if not inside_call.any():
            return owner
        owner[inside_call] = parent[owner[inside_call]]
