"""Lines of the user's that the host is in while the device waits for it, from Python frames that a trace recorded."""

from collections.abc import Collection, Iterator

import polars as pl

from stepscope.analyses.device.idle_gaps import idle_gaps
from stepscope.analyses.lib.line_places import line_place
from stepscope.core.errors import MissingData
from stepscope.core.finding import Place
from stepscope.core.run import Run

__all__ = ["gap_places"]

PLACES = 3  # lines at most
LEAST = 0.1  # of the time: lines with less are not where to look first


def gap_places(run: Run, rank: int, classes: Collection[str], of: str = "GPU idle time") -> Iterator[Place]:
    """The longest lines in gaps of a rank's devices of these classes (see `idle_gaps`), each with its share of them."""
    try:
        gaps = idle_gaps(run).filter((pl.col("rank") == rank) & pl.col("class").is_in(classes))
    except MissingData:
        return
    whole = int(gaps["duration"].sum())
    lines = gaps.drop_nulls("file").group_by("file", "line", "function").agg(pl.col("duration").sum())
    for line in lines.sort("duration", "line", descending=[True, False]).head(PLACES).iter_rows(named=True):
        if line["duration"] >= LEAST * whole:
            yield line_place({**line, "text": ""}, line["duration"] / whole, of)
