"""What memory events are called by: operator, module and line of code."""

import re

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.call_sites import CallSite, call_sites, user_site
from stepscope.analyses.lib.host_events import CALLS, THREAD
from stepscope.analyses.lib.result_tables import at_rows
from stepscope.analyses.lib.source_texts import with_texts
from stepscope.analyses.memory.lib.memory_events import memory_events, owners
from stepscope.analyses.memory.lib.peak import at_peak
from stepscope.analyses.modules.lib.module_calls import module_spans
from stepscope.core.nesting import enclosing, outwards
from stepscope.core.run import Run

__all__ = ["allocating_operators", "modules_of_rows", "sites_at_peak", "sites_of"]

Ints = npt.NDArray[np.int64]

# They allocate for whoever calls them: of these the operator around them says more.
_ALLOCATORS = r"^aten::(?:empty|new_empty|resize_)(?:_like|_strided|_permuted|_affine_quantized)?$"
_STEP = r"^ProfilerStep#"
_FRAME_END = re.compile(r";\s*")


def allocating_operators(run: Run) -> pl.Series:
    """For each row of `memory_events`, the innermost operator around it that does more than allocate, or null.

    If there is only one that allocates it is that; without any operator, the annotation around the event.
    """
    return run.once(_allocating_operators)


def modules_of_rows(run: Run, rows: pl.Series) -> pl.Series:
    """The innermost module that ran at some rows of `memory_events`, on their thread; null for none."""
    spans = module_spans(run)
    if spans.is_empty() or rows.is_empty():
        return pl.Series([None] * len(rows), dtype=pl.String)
    tracks = spans.select(THREAD).unique(maintain_order=True).with_row_index("track")
    events = memory_events(run)[rows].select(*THREAD, "time")
    on = {"on": THREAD, "how": "left", "maintain_order": "left", "nulls_equal": True}
    track = spans.select(THREAD).join(tracks, **on)["track"].cast(pl.Int64)  # type: ignore[arg-type]
    asked = events.join(tracks, **on)["track"].cast(pl.Int64).fill_null(-1)  # type: ignore[arg-type]
    time = events["time"].to_numpy()
    found = enclosing(
        track.to_numpy(), spans["start"].to_numpy(), spans["end"].to_numpy(), asked.to_numpy(), time, time
    )
    return at_rows(spans["module"], found)


def sites_at_peak(run: Run) -> tuple[CallSite, ...]:
    """The nearest line of the user's own code that allocated each row of `at_peak` that is an allocation."""
    return run.once(_sites_at_peak)


def _sites_at_peak(run: Run) -> tuple[CallSite, ...]:
    return tuple(sites_of(run, at_peak(run)["row"].drop_nulls()))


def sites_of(run: Run, rows: pl.Series) -> list[CallSite]:
    """The user's own line behind some rows of `memory_events`, by their stack or by Python frames."""
    stacks = memory_events(run)["call_stack"].gather(rows)
    if stacks.null_count() < len(stacks):
        known = {stack: user_site(_FRAME_END.split(stack)) for stack in stacks.drop_nulls().unique().to_list()}
        return with_texts(run, [known.get(stack) or CallSite(None, None, ()) for stack in stacks.to_list()])
    found = owners(run)
    if found.tree is None:
        return [CallSite(None, None, ())] * len(rows)
    around = found.around[rows.to_numpy()]
    distinct, position = np.unique(around[around >= 0], return_inverse=True)
    sites = with_texts(run, call_sites(run, found.tree, distinct)) if len(distinct) else []
    which = np.full(len(around), -1, dtype=np.int64)
    which[around >= 0] = position
    nowhere = CallSite(None, None, ())
    return [sites[place] if place >= 0 else nowhere for place in which.tolist()]


def _allocating_operators(run: Run) -> pl.Series:
    found = owners(run)
    if found.tree is None:
        return pl.Series([None] * len(found.around), dtype=pl.String)
    parent = found.tree.nesting.parent
    works = found.operators & ~found.among(pl.col("name").str.contains(_ALLOCATORS))
    row = outwards(parent, found.operator, works)
    row = np.where(row >= 0, row, found.operator)
    said = found.among(~pl.col("kind").is_in(CALLS) & ~pl.col("name").str.contains(_STEP)) & ~found.operators
    marked = outwards(parent, found.around, said)
    return at_rows(found.tree.frame["name"], np.where(row >= 0, row, marked))
