"""Curves and heat maps in formats of text."""

from stepscope.core.report import Bar, Heatmap, Line, Lines
from stepscope.render.charts import heatmap_table, lines_table


def test_a_curve_is_a_row_of_its_figures() -> None:
    lines = Lines("Memory", "time", "ns", "bytes", (Line("allocated", ((0, 1), (1, None), (2, 5), (3, 3))),))
    table = lines_table(lines)
    assert [name for name, _ in table.columns] == ["over time", "min", "mean", "max", "last"]
    assert table.rows == (("allocated", 1, 3.0, 5, 3),)


def test_a_limit_is_a_row_and_an_empty_curve_has_no_figures() -> None:
    lines = Lines("M", "time", "ns", "bytes", (Line("a", ((0, None),)),), limits=(Bar("capacity", 8),))
    assert lines_table(lines).rows == (("a", None, None, None, None), ("capacity", 8, 8, 8, 8))


def test_a_row_of_a_heat_map_is_a_row() -> None:
    table = heatmap_table(Heatmap("Steps", "step", "rank", "ns", (7, 8), (0, 3), ((1, 2), (None, 4))))
    assert table.columns[0] == ("rank", None)
    assert table.rows == ((0, 1, 1.5, 2, 2), (3, 4, 4.0, 4, 4))
