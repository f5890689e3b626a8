"""The user's lines that launch some of the device's work, where a trace has Python frames or call stacks."""

import numpy as np
import polars as pl

from stepscope.analyses.lib.call_sites import call_sites, site_table
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.line_places import STEP, line_place
from stepscope.analyses.lib.source_texts import with_texts
from stepscope.core.errors import MissingData
from stepscope.core.finding import Place
from stepscope.core.run import Run

__all__ = ["launch_lines", "launch_places"]

PLACES = 3  # lines that are named: more would hide the one that matters
_SCHEMA = {
    "rank": pl.Int32, "file": pl.String, "line": pl.Int64, "function": pl.String, "text": pl.String, "time": pl.Int64,
}  # fmt: skip


def launch_lines(run: Run, chosen: pl.Series) -> pl.DataFrame:
    """Rank, file, line, function, text and time (ns) of the lines that launch the `chosen` rows of `device_work`.

    Lines are by rank and time, largest first. No rows where the trace has no frames of the user's around a launch.
    """
    nothing = pl.DataFrame(schema=_SCHEMA)
    try:
        found = launches(run)
    except MissingData:
        return nothing
    rows = np.flatnonzero(chosen.to_numpy() & (found.call >= 0))
    if found.tree is None or not len(rows):
        return nothing
    calls, which = np.unique(found.call[rows], return_inverse=True)
    sites = site_table(with_texts(run, call_sites(run, found.tree, calls)))
    work = found.work.select("rank", time=pl.col("end") - pl.col("start"))[rows]
    lines = work.hstack(sites[which]).drop_nulls(["file", "line"])
    summed = lines.group_by("rank", "file", "line", "function").agg(pl.col("text").first(), pl.col("time").sum())
    return summed.sort("rank", "time", "file", "line", descending=[False, True, False, False]).select(
        pl.col(name).cast(kind) for name, kind in _SCHEMA.items()
    )


def launch_places(lines: pl.DataFrame, rank: int, share: float) -> tuple[Place, ...]:
    """The first lines of a rank in `launch_lines`, of which all together take `share` of the step."""
    own = lines.filter(pl.col("rank") == rank)
    whole = max(int(own["time"].sum()), 1)
    return tuple(line_place(row, share * row["time"] / whole, STEP) for row in own.head(PLACES).iter_rows(named=True))
