"""Sections choose what a report shows: each module builds the blocks of one part from analyses and the diagnosis.

A section that a run cannot fill raises MissingData when recording it would help, and returns no blocks when it would
not (a job without a GPU has no kernels). The report gathers what is missing in one place.
"""

from collections.abc import Mapping

import polars as pl

from stepscope.core.plural import plural
from stepscope.core.report import Block, Cell, Table, Text, Value
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Unit
from stepscope.report.traced_steps import traced_steps

__all__ = [
    "RANKS_SHOWN",
    "Columns",
    "excerpt",
    "has_device_work",
    "is_traced",
    "literal",
    "many",
    "ranked",
    "sums",
]

RANKS_SHOWN = 8
"""Ranks listed in a table of a report: one common machine; `stepscope show` prints them all."""

Columns = tuple[tuple[str, Unit | None], ...]
"""Headings of a table with their units."""

_NAME_IN_PROSE = 160  # characters of a path that a sentence can carry


def excerpt(
    title: str, analysis: Analysis, frame: pl.DataFrame, headings: Mapping[str, str], *, limit: int, name: str
) -> list[Block]:
    """The first `limit` rows of an analysis' table under headings; units are those of the analysis.

    `headings` maps columns to what stands above them, in order; a lone rank is left out. `name` is what
    `stepscope show` calls the analysis.
    """
    units = {column.name: column.unit for column in analysis.columns}
    meaning = {column.name: column.meaning for column in analysis.columns}
    shown = {column: heading for column, heading in headings.items() if column != "rank" or _several(frame["rank"])}
    columns = tuple((heading, units.get(column)) for column, heading in shown.items())
    rows = tuple(frame.select(list(shown)).head(limit).iter_rows())
    meanings = tuple(meaning.get(column, "") for column in shown)
    blocks: list[Block] = [Table(title, columns, rows, meanings=meanings, source=name)]
    if frame.height > limit:
        blocks.append(Text(f"{{}} more: `stepscope show {name} PATH`", (Value(frame.height - limit, "count"),)))
    return blocks


def ranked(title: str, columns: Columns, rows: tuple[tuple[Cell, ...], ...]) -> Table:
    """A table whose first column is the rank, which is left out if there is one rank only."""
    if not _several(pl.Series([row[0] for row in rows])):
        return Table(title, columns[1:], tuple(row[1:] for row in rows))
    return Table(title, columns, rows)


def is_traced(run: Run) -> bool:
    """True if the run holds host or device events of a profiler."""
    return bool(run.rows("host") or run.rows("device"))


def has_device_work(run: Run) -> bool:
    """True if anything ran on an accelerator, or the run names one."""
    return bool(run.rows("device") or run.rows("devices"))


def sums(run: Run) -> list[Block]:
    """Says that a table holds sums, where the trace has several steps."""
    count = traced_steps(run)
    return (
        [Text(f"Calls and times are sums over the trace, which has {many(count, 'step')}.", (Value(count, "count"),))]
        if count > 1
        else []
    )


def literal(name: str, limit: int = _NAME_IN_PROSE) -> str:
    """A name as part of a Text block's template, where braces stand for values; one longer than `limit` is cut."""
    if len(name) > limit:
        name = name[: limit - 1] + "…"
    return name.replace("{", "{{").replace("}", "}}")


def many(count: float | None, one: str, several: str = "") -> str:
    """`{} step` or `{} steps` as part of a Text block's template; `several` is the plural where it is not one + s."""
    return f"{{}} {plural(count, one, several)}"


def _several(ranks: pl.Series) -> bool:
    return ranks.n_unique() > 1
