"""The calls of both runs as a tree: what adds up, what is inside what, and what is left out where there are many."""

import pytest

from stepscope.compare import tree_block as module
from stepscope.compare.comparison import Comparison
from stepscope.compare.tree_block import tree_block
from stepscope.core.report import ChangeTree
from stepscope.core.synth import MS, Synth

from .training import compared, traced


def tree(comparison: Comparison, what: str) -> ChangeTree:
    made = tree_block("Calls", comparison.trees[what])
    assert made
    return made


def nested(inner: float, *, more: bool = False) -> Synth:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 40)
    synth.host("aten::linear", "operator", 1, 3 + inner).host("aten::mm", "operator", 2, 2 + inner)
    if more:
        synth.host("aten::relu", "operator", 30, 35).host("aten::clamp", "operator", 31, 33)
    return synth


def test_each_call_has_all_inside_it_and_the_largest_change_is_first() -> None:
    rows = tree(compared(nested(10), nested(4, more=True)), "host").rows
    assert [(row.depth, row.name, row.own, row.whole, row.calls) for row in rows] == [
        (0, "ProfilerStep", (28 * MS, 29 * MS), (40 * MS, 40 * MS), (1.0, 1.0)),
        (1, "aten::linear", (2 * MS, 2 * MS), (12 * MS, 6 * MS), (1.0, 1.0)),
        (2, "aten::mm", (10 * MS, 4 * MS), (10 * MS, 4 * MS), (1.0, 1.0)),
        (1, "aten::relu", (None, 5 * MS), (None, 5 * MS), (None, 1.0)),
    ]


def test_own_times_add_up_to_the_change_of_the_whole() -> None:
    comparison = compared(traced(time=20), traced(time=10, extra=True))
    for what, changes in comparison.trees.items():
        rows = tree(comparison, what).rows
        assert sum((row.own[1] or 0) - (row.own[0] or 0) for row in rows) == changes.b - changes.a
        tops = [row.whole for row in rows if row.depth == 0]
        assert (sum(a or 0 for a, _ in tops), sum(b or 0 for _, b in tops)) == (changes.a, changes.b)


def test_of_many_calls_those_that_changed_most_are_kept_with_all_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 3)
    made = tree(compared(nested(10), nested(4, more=True)), "host")
    assert [row.name for row in made.rows] == ["ProfilerStep", "aten::linear", "aten::mm"]
    assert made.left_out == 1
