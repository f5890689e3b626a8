"""Bars fill their width exactly."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stepscope.render.bars import cells, looks, shares


@given(st.lists(st.floats(0, 1e15), min_size=1, max_size=8), st.integers(20, 200))
def test_parts_add_up_and_none_is_lost(values: list[float], width: int) -> None:
    parts = cells(values, width)
    assert sum(parts) == (width if sum(values) > 0 else 0)
    assert all((part > 0) == (value > 0) for part, value in zip(parts, values, strict=True)) or sum(values) == 0


def test_in_proportion() -> None:
    assert cells([50, 25, 25], 80) == [40, 20, 20]
    assert cells([1, 1, 1], 10) == [4, 3, 3]
    assert cells([1e9, 1], 10) == [9, 1]
    assert cells([0, 0], 10) == [0, 0]
    assert shares([3, 1]) == [0.75, 0.25]
    assert shares([]) == []


def test_waiting_and_the_rest_look_the_same_in_every_bar() -> None:
    assert looks(["data wait", "forward", "backward", "optimizer", "other"], 8) == [0, 1, 2, 3, 7]
    assert looks(["kernels", "data wait", "other"], 8) == [1, 0, 7]
    assert looks([f"part {i}" for i in range(8)], 8) == [1, 2, 3, 4, 5, 6, 1, 2]
    assert looks(["forward", "communication", "backward"], 8) == [1, 5, 2]
    assert looks(["kernels", "forward"], 8) == [1, 2], "no two parts of a bar share a color while there is another"
    assert looks([], 8) == []


def test_the_page_has_the_same_colors() -> None:
    source = (Path(__file__).parents[2] / "web-app" / "src" / "blocks" / "colors.ts").read_text(encoding="utf-8")
    table = source.partition("FIXED: Record<string, number> = {")[2].partition("};")[0]
    found = re.findall(r'(?:"([^"]+)"|(\w+)): (\d|COLORS - 1)', table)
    there = {quoted or bare: -1 if number == "COLORS - 1" else int(number) for quoted, bare, number in found}
    assert there
    assert {label: looks([label], 8)[0] for label in there} == {label: number % 8 for label, number in there.items()}
    assert looks(["a", "data wait", "b", "other"], 8) == [1, 0, 2, 7]
