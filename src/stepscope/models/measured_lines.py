"""What was measured at each line of the user's code: its share of the step, or of the time in which data are loaded."""

import polars as pl

from stepscope.analyses.host.lines import lines
from stepscope.analyses.input_pipeline.loader_lines import loader_lines
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["measured_lines"]


def measured_lines(run: Run) -> dict[tuple[str, int], tuple[str, float]]:
    """By file and line: what the share is of, and the share. A line of the loop and of a worker is one of the loop."""
    found: dict[tuple[str, int], tuple[str, float]] = {}
    for table, of in ((loader_lines, "of sampled loading time"), (lines, "of the step")):
        try:
            rows = table(run).drop_nulls(["file", "line"]).group_by("file", "line").agg(pl.col("share").sum())
        except MissingData:
            continue
        found.update({(file, line): (of, share) for file, line, share in rows.iter_rows()})
    return found
