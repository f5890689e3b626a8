"""What a thread of the host did during a stretch of time, in which module, and on which line of the user's code.

The activity is the innermost operator, annotation, call or Python frame that covers more than half of the stretch; the
mark of a step is none. The line is that of the innermost frame of the user's own code around it, from Python frames,
or from the call stack recorded with an operator.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.call_sites import site_table, user_site
from stepscope.analyses.lib.dominant_range import Stretches, covering, nested
from stepscope.analyses.lib.host_events import THREAD, HostTree
from stepscope.analyses.lib.library_code import is_library
from stepscope.analyses.lib.result_tables import at_rows
from stepscope.analyses.modules.lib.module_calls import module_spans
from stepscope.core.nesting import Nesting, outwards
from stepscope.core.run import Run

__all__ = ["ACTIVITY", "host_activity"]

ACTIVITY = {
    "activity": pl.String, "module": pl.String, "file": pl.String, "line": pl.Int64, "function": pl.String,
}  # fmt: skip
"""Columns of `host_activity` and their types."""

_SITE = {name: ACTIVITY[name] for name in ("file", "line", "function")}
_FRAME = r"(?s)^(.+?)\((\d{1,9})\): (.+)$"
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Frames:
    """Python frames: track and times, how they nest, and their names."""

    ranges: Stretches
    nesting: Nesting
    name: pl.Series


def host_activity(run: Run, tree: HostTree | None, asked: Stretches) -> pl.DataFrame:
    """One row per stretch, columns as in ACTIVITY, null where nothing is known. Tracks are those of the host tree."""
    if tree is None or not len(asked.track):
        return pl.DataFrame({name: [None] * len(asked.track) for name in ACTIVITY}, schema=ACTIVITY)
    ranges, parent = _times(tree.frame), tree.nesting.parent
    inside = covering(ranges, tree.nesting, asked)
    doing = outwards(parent, inside, ~tree.steps)
    frames = _frames(run, tree, np.unique(asked.track))
    modules = _modules(run, tree, asked)
    if frames is None:
        return pl.DataFrame({"activity": at_rows(tree.frame["name"], doing), "module": modules}).hstack(
            _recorded_sites(run, tree, inside)
        )
    frame = covering(frames.ranges, frames.nesting, asked)
    deeper = (frame >= 0) & ((doing < 0) | (frames.ranges.start[frame] > ranges.start[doing]))
    activity = pl.select(
        pl.when(pl.Series(deeper)).then(at_rows(frames.name, frame)).otherwise(at_rows(tree.frame["name"], doing))
    ).to_series()
    told = _recorded_sites(run, tree, np.where(frame < 0, inside, -1))  # of ranks without frames
    sites = [
        pl.select(pl.when(pl.Series(frame >= 0)).then(site).otherwise(told[site.name])).to_series().alias(site.name)
        for site in _user_sites(frames, frame)
    ]
    return pl.DataFrame({"activity": activity, "module": modules}).hstack(sites)


def _times(frame: pl.DataFrame) -> Stretches:
    return Stretches(*(frame[name].to_numpy() for name in ("track", "start", "end")))


def _frames(run: Run, tree: HostTree, tracks: Ints) -> _Frames | None:
    """Python frames of some threads of the host tree; None if the trace holds none of them."""
    is_frame = pl.col("kind") == "python"
    if not run.optional("host", "kind").select(is_frame.any()).item():
        return None
    threads = tree.threads.filter(pl.col("track").is_in(tracks.tolist()))
    frames = run.where("host", is_frame, *THREAD, "name", "start", "end")
    frames = frames.join(threads, on=THREAD, how="inner", nulls_equal=True, maintain_order="left")
    if frames.is_empty():
        return None
    ranges = _times(frames)
    return _Frames(ranges, nested(ranges), frames["name"])


def _modules(run: Run, tree: HostTree, asked: Stretches) -> pl.Series:
    modules = module_spans(run)
    modules = modules.join(tree.threads, on=THREAD, how="inner", nulls_equal=True, maintain_order="left")
    ranges = _times(modules)
    return at_rows(modules["module"], covering(ranges, nested(ranges), asked))


def _user_sites(frames: _Frames, rows: Ints) -> pl.DataFrame:
    """File, line and function of the innermost frame of the user's code at some frames or around them."""
    parts = {part: pl.col("name").str.extract(_FRAME, group) for group, part in enumerate(_SITE, 1)}
    sites = frames.name.unique().to_frame("name").with_columns(**parts).drop_nulls("file").cast({"line": pl.Int64})
    own = sites.filter(pl.Series([not is_library(file) for file in sites["file"]], dtype=pl.Boolean))
    passes = frames.name.is_in(own["name"].implode()).fill_null(False).to_numpy()
    names = at_rows(frames.name, outwards(frames.nesting.parent, rows, passes)).to_frame("name")
    return names.join(own, on="name", how="left", maintain_order="left").drop("name")


def _recorded_sites(run: Run, tree: HostTree, rows: Ints) -> pl.DataFrame:
    """The same from the call stacks that the profiler wrote with operators, if any."""
    recorded = run.optional("host", "call_stack")["call_stack"]
    if recorded.null_count() == len(recorded):
        return pl.DataFrame({name: [None] * len(rows) for name in _SITE}, schema=_SITE)
    stacks = recorded.gather(tree.frame["host_row"])
    stacked = (stacks.is_not_null() & (stacks != "")).fill_null(False).to_numpy()
    stack = at_rows(stacks, outwards(tree.nesting.parent, rows, stacked))
    distinct = stack.drop_nulls().unique(maintain_order=True)
    sites = [user_site(frame.strip() for frame in text.split(";")) for text in distinct]
    known = site_table(sites).drop("text").with_columns(distinct.alias("stack"))
    return stack.alias("stack").to_frame().join(known, on="stack", how="left", maintain_order="left").drop("stack")
