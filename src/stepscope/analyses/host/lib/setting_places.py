"""Lines of the user's code that set how torch computes: no sample meets them, but a recording keeps them."""

import re
from collections.abc import Mapping

import polars as pl

from stepscope.analyses.host.lines import lines
from stepscope.core.errors import MissingData
from stepscope.core.finding import Place
from stepscope.core.run import Run

__all__ = ["setting_places"]

PLACES = 3  # more would not tell which one to change
_FAR = 1_000_000  # lines: of a file in which no sample was


def setting_places(run: Run, pattern: str, rank: int | None = None) -> tuple[Place, ...]:
    """Kept source lines that match a regular expression outside of comments; none where no source was kept.

    Those near to lines that ran go first: a file may set the same for another way to train.
    """
    kept = run.optional("sources", "rank", "file", "line", "text").drop_nulls(["file", "line", "text"])
    if rank is not None:
        kept = kept.filter((pl.col("rank") == rank) | pl.col("rank").is_null())
    rows = kept.select("file", "line", "text").unique().sort("file", "line").iter_rows(named=True)
    found = [row for row in rows if re.search(pattern, row["text"].partition("#")[0])]
    ran = _lines_that_ran(run) if len(found) > 1 else {}

    def distance(row: Mapping[str, int | str]) -> int:
        return min((abs(int(row["line"]) - line) for line in ran.get(str(row["file"]), ())), default=_FAR)

    return tuple(
        Place(file=row["file"], line=row["line"], symbol="", text=row["text"].strip())
        for row in sorted(found, key=distance)[:PLACES]
    )


def _lines_that_ran(run: Run) -> dict[str, list[int]]:
    """Sampled lines of each file; none without samples."""
    try:
        sampled = lines(run).drop_nulls(["file", "line"])
    except MissingData:
        return {}
    by_file: dict[str, list[int]] = {}
    for file, line in sampled.select("file", "line").unique().iter_rows():
        by_file.setdefault(file, []).append(line)
    return by_file
