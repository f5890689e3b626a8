"""Parts and rows of two runs: what they add up to, how names find each other, what appeared and vanished."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.compare.changes import Change, divided_changes, listed_changes
from stepscope.compare.series import Division, divided


def test_parts_of_a_change_add_up() -> None:
    a = Division(whole=100, parts={"data_wait": 60, "forward": 40, "optimizer": None})
    b = Division(whole=50, parts={"data_wait": None, "forward": 45, "optimizer": 5})
    changes = divided_changes(a, b)
    assert changes.rows == (
        Change(name="data_wait", a=60, b=None, share=1.2, matched="vanished"),
        Change(name="forward", a=40, b=45, share=-0.1),
        Change(name="optimizer", a=None, b=5, share=-0.1, matched="appeared"),
    )
    assert sum(row.difference for row in changes.rows) == changes.b - changes.a
    assert [row.ratio for row in changes.rows] == [None, 1.125, None]


def test_a_change_of_nothing_has_no_shares() -> None:
    whole = Division(whole=1000, parts={"x": 1000})
    assert [row.share for row in divided_changes(whole, Division(whole=1005, parts={"x": 1005})).rows] == [None]


def test_of_what_cancels_out_there_are_no_shares() -> None:
    a, b = Division(whole=1000, parts={"x": 900, "y": 100}), Division(whole=1015, parts={"x": 800, "y": 215})
    assert [row.share for row in divided_changes(a, b).rows] == [None, None]
    b = Division(whole=1030, parts={"x": 800, "y": 230})
    assert [row.share for row in divided_changes(a, b).rows] == pytest.approx([-100 / 30, 130 / 30])


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=6), st.integers(1, 1000))
def test_whole_nanoseconds_add_up_however_many_steps_there_are(parts: list[int], steps: int) -> None:
    means = {str(name): part / steps for name, part in enumerate(parts)}
    division = divided(sum(parts) / steps, means)
    assert sum(part or 0 for part in division.parts.values()) == division.whole
    for name, mean in means.items():
        assert abs((division.parts[name] or 0) - mean) <= 1.001


def test_names_find_each_other_exactly_then_without_arguments_and_the_rest_appeared_or_vanished() -> None:
    a = {"mm": (2.0, 50.0), "add<float>": (4.0, 10.0), "add<half>": (1.0, 2.0), "old": (1.0, 7.0)}
    b = {"mm": (2.0, 20.0), "add<double>": (3.0, 15.0), "new": (1.0, 1.0)}
    changes = listed_changes(a, b, (100, 70))
    assert [(row.name, row.a, row.b, row.calls_a, row.calls_b, row.matched) for row in changes.rows] == [
        ("mm", 50, 20, 2.0, 2.0, "name"),
        ("old", 7, None, 1.0, None, "vanished"),
        ("add", 12, 15, 5.0, 3.0, "short name"),
        ("new", None, 1, None, 1.0, "appeared"),
    ]
    assert [row.share for row in changes.rows] == pytest.approx([1.0, 7 / 30, -0.1, -1 / 30])
    assert (changes.a, changes.b) == (69, 36)


def test_rows_are_mirrored_the_other_way_round() -> None:
    a, b = {"x": (1.0, 5.0), "y": (1.0, 1.0)}, {"x": (2.0, 7.0), "z": (1.0, 3.0)}
    there, back = listed_changes(a, b, (6, 10)), listed_changes(b, a, (10, 6))
    assert {row.name: row.difference for row in there.rows} == {row.name: -row.difference for row in back.rows}
    assert {row.name: row.share for row in there.rows} == {row.name: row.share for row in back.rows}
