"""Lines of the user's code that set how torch computes: no sample meets them, but a recording keeps them."""

import re

import polars as pl

from stepscope.core.finding import Place
from stepscope.core.run import Run

__all__ = ["setting_places"]

PLACES = 3  # more would not tell which one to change


def setting_places(run: Run, pattern: str, rank: int | None = None) -> tuple[Place, ...]:
    """Kept source lines that match a regular expression outside of comments; none where no source was kept."""
    kept = run.optional("sources", "rank", "file", "line", "text").drop_nulls(["file", "line", "text"])
    if rank is not None:
        kept = kept.filter((pl.col("rank") == rank) | pl.col("rank").is_null())
    rows = kept.select("file", "line", "text").unique().sort("file", "line").iter_rows(named=True)
    found = [row for row in rows if re.search(pattern, row["text"].partition("#")[0])]
    return tuple(
        Place(file=row["file"], line=row["line"], symbol="", text=row["text"].strip()) for row in found[:PLACES]
    )
