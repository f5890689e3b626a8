"""Memory by the operators that allocate and free it: of themselves, and with the operators inside them."""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.markers import step_markers
from stepscope.analyses.lib.result_tables import RECORD_TRACE, at_rows
from stepscope.analyses.memory.lib.memory_events import memory_events, owners
from stepscope.analyses.memory.lib.memory_phases import event_phases
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.schema import Column

__all__ = ["SIZES", "by_operator"]

Ints = npt.NDArray[np.int64]
SIZES = (
    Column("increase_total", pl.Int64, "bytes", "allocated less freed, by it and the operators inside"),
    Column("increase_self", pl.Int64, "bytes", "allocated less freed, by it alone"),
    Column("allocated_total", pl.Int64, "bytes", "allocated, by it and the operators inside"),
    Column("allocated_self", pl.Int64, "bytes", "allocated, by it alone"),
    Column("allocations_total", pl.Int64, "count", "allocations, by it and the operators inside"),
    Column("allocations_self", pl.Int64, "count", "allocations, by it alone"),
)
"""The columns of what an operator did to memory."""


def by_operator(run: Run, *more: str) -> pl.DataFrame:
    """Sizes per device, operator and the columns `more` (step): key, rank, `more`, name, calls and those of SIZES.

    An event belongs to the innermost operator at its time on its thread; name is null where there is none. Operators
    inside one of their own name count once in its totals. Ranks without operators are left out. Raises MissingData
    without memory events or operators.
    """
    events, found = memory_events(run), owners(run)
    operators = None if found.tree is None else found.tree.frame.filter(pl.col("kind") == "operator")["rank"].unique()
    if found.tree is None or operators is None or not events["rank"].is_in(operators.implode()).any():
        raise MissingData("operators", how=RECORD_TRACE)
    recorded = events["rank"].is_in(operators.implode())
    events = events.select("key", "row", "bytes").with_columns(event_phases(run).of_event.select("step"))
    total = _sizes(_around(events, run), more, "total")
    events = events.with_columns(name=at_rows(found.tree.frame["name"], found.operator)).filter(recorded)
    own = _sizes(events, more, "self")
    rows = own.join(total, on=("key", *more, "name"), how="full", coalesce=True, nulls_equal=True)
    sizes = [column.name for column in SIZES]
    # What no operator did has no parts inside.
    outside = pl.col("name").is_null()
    rows = rows.with_columns(pl.col(sizes).fill_null(0)).with_columns(
        pl.when(outside).then(pl.col(f"{size}_self")).otherwise(pl.col(f"{size}_total")).alias(f"{size}_total")
        for size in ("increase", "allocated", "allocations")
    )
    ranks = memory_events(run).group_by("key").agg(pl.col("rank").first())
    rows = rows.join(ranks, on="key").join(_calls(run, more), on=("rank", *more, "name"), how="left", nulls_equal=True)
    changes = rows.group_by("key").agg(pl.col("increase_self").sum()).sort("key")
    assert changes["increase_self"].equals(events.group_by("key").agg(pl.col("bytes").sum()).sort("key")["bytes"])
    return rows


def _around(events: pl.DataFrame, run: Run) -> pl.DataFrame:
    """One row per event and name of an operator around it."""
    found = owners(run)
    assert found.tree is not None
    event, around = np.arange(len(found.operator)), found.operator
    parts = []
    while len(event):
        event, around = event[around >= 0], around[around >= 0]
        of_operator = found.operators[around]
        parts.append(np.stack((event[of_operator], around[of_operator]), axis=1))
        around = found.tree.nesting.parent[around]
    pairs = np.concatenate(parts)
    named = events[pairs[:, 0]].with_columns(found.tree.frame["name"].gather(pairs[:, 1]))
    return named.unique(("row", "name"), maintain_order=True)


def _sizes(events: pl.DataFrame, more: tuple[str, ...], whose: str) -> pl.DataFrame:
    positive = pl.col("bytes").filter(pl.col("bytes") > 0)
    sizes = {"increase": pl.col("bytes").sum(), "allocated": positive.sum(), "allocations": positive.len()}
    return events.group_by("key", *more, "name").agg(
        value.cast(pl.Int64).alias(f"{name}_{whose}") for name, value in sizes.items()
    )


def _calls(run: Run, more: tuple[str, ...]) -> pl.DataFrame:
    """How often each operator ran: rank, `more`, name, calls."""
    calls = run.once(_operator_calls)
    if more:
        markers = step_markers(run).select("rank", "step", since="start", until="end").sort("since")
        calls = calls.sort("start").join_asof(
            markers, left_on="start", right_on="since", by="rank", check_sortedness=False
        )
        calls = calls.with_columns(step=pl.when(pl.col("start") < pl.col("until")).then("step"))
    return calls.group_by("rank", *more, "name").agg(calls=pl.len())


def _operator_calls(run: Run) -> pl.DataFrame:
    """Calls of the operators that hold memory events: rank, name, start."""
    found = owners(run)
    assert found.tree is not None
    frame = found.tree.frame.select("rank", "name", "kind", "start")
    names = frame["name"].gather(np.nonzero(found.operators)[0]).unique()
    of_operator = (pl.col("kind") == "operator") & pl.col("name").is_in(names.implode())
    return frame.filter(of_operator).select("rank", "name", "start")
