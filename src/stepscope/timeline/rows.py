"""The rows behind spans: of core tables and of the analyses that tracks are made of."""

import polars as pl

from stepscope.core.run import Run
from stepscope.core.schema import TABLES, Column
from stepscope.timeline.derived import ANALYSES

__all__ = ["TABLES_TOLD", "columns_of", "columns_told", "rows_of"]

_TOLD = {
    "host": ("kind", "input_dims", "input_types", "sequence", "module_id"),
    "device": (
        "kind", "bytes", "bandwidth", "grid", "block", "registers", "shared_memory", "blocks_per_sm", "warps_per_sm",
        "occupancy", "collective", "group", "group_size", "dtype", "in_elements", "out_elements",
    ),
    "idle_gaps": ("class", "activity", "module", "file", "line", "function", "next", "operator"),
    "critical_path": ("class", "operator", "module", "file", "line", "function"),
    "loader_spans": ("worker", "loader", "batch", "sample", "stage", "file", "line", "count", "failed"),
}  # fmt: skip
TABLES_TOLD = tuple(_TOLD)
"""The tables and analyses of whose rows anything is told."""

_JOINED = {"host": ("correlation",), "device": ("correlation",)}


def columns_of(table: str) -> tuple[Column, ...]:
    """The columns of a core table or an analysis."""
    return ANALYSES[table].columns if table in ANALYSES else TABLES[table]


def columns_told(table: str, *, joins: bool = True) -> tuple[str, ...]:
    """The columns that are told of many spans: what many have in common; with what joins launches and work."""
    return (*_TOLD.get(table, ()), *(_JOINED.get(table, ()) if joins else ()))


def rows_of(run: Run, table: str, *columns: str) -> pl.DataFrame:
    """Columns of a core table or an analysis, or all."""
    analysis = ANALYSES.get(table)
    if analysis is None:
        return run.optional(table, *columns)
    return analysis(run).select(columns) if columns else analysis(run)
