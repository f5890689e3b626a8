"""What a page draws where only text can be shown: curves, maps and lanes as tables, long tables by their first rows."""

from collections.abc import Iterable
from dataclasses import replace

from stepscope.core.report import Heatmap, Lane, Lanes, Lines, Table, Text, Value
from stepscope.core.schema import Unit

__all__ = ["first_rows", "heatmap_table", "lanes_table", "lines_table"]

Columns = tuple[tuple[str, Unit | None], ...]


def first_rows(table: Table) -> tuple[Table, Text | None]:
    """The rows that are enough, and how many more there are."""
    more = len(table.rows) - table.enough
    if not table.enough or more <= 0:
        return table, None
    told = Text("{} more: `--format json` has all.", (Value(more, "count"),))
    return replace(table, rows=table.rows[: table.enough]), told


def lines_table(block: Lines) -> Table:
    """A row for each curve and for each limit."""
    unit = block.unit
    columns: Columns = ((_over(block.x), None), ("min", unit), ("mean", unit), ("max", unit), ("last", unit))
    rows = [(line.label, *_figures([y for _, y in line.points])) for line in block.lines]
    limits = [(limit.label, limit.value, limit.value, limit.value, limit.value) for limit in block.limits]
    return Table(block.title, columns, (*rows, *limits))


def _over(x: str) -> str:
    return "all steps" if x == "step" else f"over {x}"


def heatmap_table(block: Heatmap) -> Table:
    """A row for each row of the map."""
    unit = block.unit
    columns: Columns = ((block.y, None), ("min", unit), ("mean", unit), ("max", unit), ("last", unit))
    rows = ((y, *_figures(values)) for y, values in zip(block.ys, block.values, strict=True))
    return Table(block.title, columns, tuple(rows))


def lanes_table(block: Lanes) -> Table:
    """A row for each lane: how long it did what; nothing where it never did."""
    columns: Columns = (("who", None), *((kind, "ns") for kind in block.kinds))
    return Table(block.title, columns, tuple((lane.label, *_sums(lane, block.kinds)) for lane in block.lanes))


def _sums(lane: Lane, kinds: Iterable[str]) -> Iterable[int | None]:
    sums: dict[str, int] = {}
    for start, end, what in lane.spans:
        sums[what] = sums.get(what, 0) + end - start
    return (sums.get(kind) for kind in kinds)


def _figures(values: Iterable[float | None]) -> tuple[float | None, ...]:
    """Min, mean, max and last of the values that were recorded."""
    known = [value for value in values if value is not None]
    return (min(known), sum(known) / len(known), max(known), known[-1]) if known else (None,) * 4
