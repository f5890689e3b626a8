"""Tracing cost, from the steps beside the traced window.

One row is a rank. Times are ns. untraced_step and traced_step are medians of the steady and of the traced steps.
slowdown is their ratio, 1 for none. start_stop is the time to start, stop and write the traces. `status` is recorded,
or what happened to the first window that was not recorded whole, and `reason` says why.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE, quotient, shaped
from stepscope.analyses.steps.steps import steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("untraced_step", pl.Float64, "ns", "median step that was not traced, without warm-up"),
    Column("traced_step", pl.Float64, "ns", "median step that was traced"),
    Column("slowdown", pl.Float64, "ratio", "traced_step / untraced_step"),
    Column("start_stop", pl.Int64, "ns", "starting, stopping and writing traces"),
    Column("windows", pl.Int64, "count", "traced windows, whole or not"),
    Column("steps", pl.Int64, "count", "traced steps"),
    Column("status", pl.String, None, "recorded, stood back, abandoned or failed"),
    Column("reason", pl.String, None, "why a window was not recorded whole"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank. Raises MissingData in a run without traced windows of stepscope's own."""
    windows = run.optional("windows")
    if windows.is_empty():
        raise MissingData("traced windows", how=RECORD_TRACE)
    fault = (pl.col("status") != "recorded").arg_max()  # the first that is not, else the first of all
    rows = windows.sort("rank", "window").group_by("rank", maintain_order=True).agg(
        start_stop=pl.when(pl.col("cost").is_not_null().any()).then(pl.col("cost").sum()),
        windows=pl.len(), status=pl.col("status").get(fault), reason=pl.col("reason").get(fault),
    )  # fmt: skip
    return shaped(rows.join(_medians(run), on="rank", how="left"), COLUMNS)


def _medians(run: Run) -> pl.DataFrame:
    def has(tag: str) -> pl.Expr:
        return pl.col("tags").list.contains(tag)

    try:
        table = steps(run)
    except MissingData:
        kinds = {
            column.name: column.type
            for column in COLUMNS
            if column.name in ("rank", "untraced_step", "traced_step", "slowdown", "steps")
        }
        return pl.DataFrame(schema=kinds)
    untraced = ~has("traced") & ~has("tracing") & ~has("warm-up")
    medians = table.group_by("rank").agg(
        untraced_step=pl.col("duration").filter(untraced).median(),
        traced_step=pl.col("duration").filter(has("traced")).median(),
        steps=has("traced").sum(),
    )
    return medians.with_columns(
        slowdown=pl.when(pl.col("untraced_step") > 0).then(quotient(pl.col("traced_step"), pl.col("untraced_step")))
    )


ANALYSIS = tracing_cost = Analysis(compute=compute, columns=COLUMNS, scope="rank")
