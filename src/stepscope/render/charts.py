"""Curves and heat maps where only text can be shown: as tables of their least, mean and largest values."""

from collections.abc import Iterable

from stepscope.core.report import Heatmap, Lines, Table
from stepscope.core.schema import Unit

__all__ = ["heatmap_table", "lines_table"]

Columns = tuple[tuple[str, Unit | None], ...]


def lines_table(block: Lines) -> Table:
    """A row for each curve and for each limit."""
    unit = block.unit
    columns: Columns = ((f"over {block.x}", None), ("least", unit), ("mean", unit), ("most", unit), ("last", unit))
    rows = [(line.label, *_figures([y for _, y in line.points])) for line in block.lines]
    limits = [(limit.label, limit.value, limit.value, limit.value, limit.value) for limit in block.limits]
    return Table(block.title, columns, (*rows, *limits))


def heatmap_table(block: Heatmap) -> Table:
    """A row for each row of the map."""
    unit = block.unit
    columns: Columns = ((block.y, None), ("least", unit), ("mean", unit), ("most", unit), ("last", unit))
    rows = ((y, *_figures(values)) for y, values in zip(block.ys, block.values, strict=True))
    return Table(block.title, columns, tuple(rows))


def _figures(values: Iterable[float | None]) -> tuple[float | None, ...]:
    """Least, mean, most and last of the values that were recorded."""
    known = [value for value in values if value is not None]
    return (min(known), sum(known) / len(known), max(known), known[-1]) if known else (None,) * 4
