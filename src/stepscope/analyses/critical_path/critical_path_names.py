"""What is on the critical path, by name: operators, kernels, calls and lines whose time decides how long a step takes.

One row is a class, a name and, of Python, a line on the path of a rank's steps, see `critical_path`. Times are ns.
Making these faster makes the steps faster, by at most their time here, until another chain becomes the
longest.
"""

import polars as pl

from stepscope.analyses.critical_path.critical_path import path_rows
from stepscope.analyses.lib.result_tables import RANK, parts, quotient, shaped
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("class", pl.String, None, "kind of time, as in `critical_path`"),
    Column("name", pl.String, None, "operator, call, annotation, kernel or copy; null: between all of these"),
    Column("operator", pl.String, None, "innermost operator around it, or that launched it; null: none known"),
    Column("file", pl.String, None, "file of the user's code, of class host; null: not recorded"),
    Column("line", pl.Int64, None, "line of the user's code, of class host"),
    Column("function", pl.String, None, "function of that line"),
    Column("segments", pl.Int64, "count", "how often it is on the path"),
    Column("total", pl.Int64, "ns", "its time on the path of all steps"),
    Column("per_step", pl.Float64, "ns", "its time on the path of a step, on average"),
    Column("share", pl.Float64, "ratio", "its share of all steps"),
)
_KEY = ("rank", "class", "name", "operator", "file", "line", "function")
_NO_STEP = pl.when(~pl.col("name").str.starts_with("ProfilerStep#")).then("name")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, the largest total first. Raises MissingData as `critical_path` does."""
    path = path_rows(run)
    of_ranks = parts(path.select("rank", "number", "duration"), "rank")
    steps = pl.concat([_steps(path).clear(), *(_steps(part) for part in of_ranks)])
    known = [name for name in _KEY if path[name].null_count() < path.height]
    rows = path.group_by(known).agg(segments=pl.len(), total=pl.col("duration").sum())
    rows = rows.with_columns(pl.lit(None, dtype=path[name].dtype).alias(name) for name in _KEY if name not in known)
    rows = rows.with_columns(pl.col(pl.Enum).cast(pl.String)).with_columns(name=_NO_STEP)
    rows = rows.group_by(_KEY).agg(pl.col("segments", "total").sum()).join(steps, on="rank")
    total = pl.col("total")
    rows = rows.with_columns(per_step=quotient(total, pl.col("steps")), share=quotient(total, pl.col("whole")))
    by = ("rank", "total", *_KEY[1:])
    return shaped(rows.sort(by, descending=[False, True, *[False] * (len(_KEY) - 1)], nulls_last=True), COLUMNS)


def _steps(path: pl.DataFrame) -> pl.DataFrame:
    """The steps of a rank and how long they are, as one row."""
    return path.select(pl.col("rank").first(), steps=pl.col("number").n_unique(), whole=pl.col("duration").sum())


LEADING = ("class", "name", "share", "per_step", "total", "operator", "file", "line", "segments")
ANALYSIS = critical_path_names = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
