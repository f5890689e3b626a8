"""Pictures: what is drawn where, with title, units and legend, and nothing that a name could smuggle in."""

from dataclasses import replace
from typing import Literal
from xml.etree import ElementTree

import pytest

from stepscope.core.report import Bar, Bars, Heatmap, Interval, Line, Lines, Table
from stepscope.render.svg import Picture, svg

from .conftest import HOSTILE

MS = 1_000_000
NAME = "{http://www.w3.org/2000/svg}"
STEPS = Lines(
    "Each step", "step", None, "ns",
    (Line("data wait", ((0, 10 * MS), (1, 20 * MS))), Line("forward", ((0, 10 * MS), (1, None)))), stacked=True,
)  # fmt: skip
MEMORY = Lines(
    "Memory", "time", "ns", "bytes", (Line("allocated", ((0, 2**30), (5 * MS, None), (10 * MS, 2**31))),),
    limits=(Bar("capacity", 2**33),),
)  # fmt: skip
RANKS = Heatmap("Ranks", "step", "rank", "ns", (0, 1), (0, 3), ((1 * MS, 2 * MS), (3 * MS, None)))
MEAN = Bars("Mean step", "ns", (Bar("data wait", 3 * MS), Bar("other", 1 * MS)))


def texts(picture: Picture) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg(picture, "a run")).iter(f"{NAME}text")]


def boxes(picture: Picture) -> list[tuple[float, float, str]]:
    """Width, height and color of what is filled, without the ground."""
    found = list(ElementTree.fromstring(svg(picture)).iter(f"{NAME}rect"))[1:]
    return [(float(box.attrib["width"]), float(box.attrib["height"]), box.attrib["fill"]) for box in found]


def test_a_bar_is_as_wide_as_its_shares_and_says_them() -> None:
    (wait, _, orange), (other, _, gray), *legend = boxes(MEAN)
    assert (wait, other) == (684, 228)
    assert [color for _, _, color in legend] == [orange, gray]
    assert texts(MEAN) == ["Mean step", "a run", "data wait 75 %, 3 ms", "other 25 %, 1 ms"]


def test_bars_stand_on_each_other_on_round_marks() -> None:
    drawn = boxes(STEPS)[2:]  # after the legend
    assert [height for _, height, _ in drawn] == [160, 320, 160]  # of 320 px for 20 ms; nothing was recorded of one
    assert texts(STEPS)[2:4] == ["data wait", "forward"]
    assert texts(STEPS)[4:] == ["0 ms", "5 ms", "10 ms", "15 ms", "20 ms", "0", "1", "step"]


def test_a_curve_is_open_where_nothing_was_recorded_and_limits_are_in_sight() -> None:
    root = ElementTree.fromstring(svg(MEMORY))
    curve = [path.attrib["d"] for path in root.iter(f"{NAME}path")][-2]
    assert curve.count("M") == 2
    assert texts(MEMORY)[-1] == "capacity 8 GiB"
    assert "8 GiB" in texts(MEMORY)


def test_many_steps_are_areas() -> None:
    points = tuple((float(x), float(x % 7)) for x in range(1000))
    assert len(boxes(Lines("Steps", "step", None, "ns", (Line("a", points),), stacked=True))) == 1  # the legend


def test_what_is_not_known_is_no_square_and_shades_are_told() -> None:
    shades = [color for _, _, color in boxes(RANKS)[:3]]
    assert shades == ["#f2f5f9", "#6aa7d8", "#b34700"]
    assert texts(RANKS)[2:] == ["rank 0", "rank 3", "0", "1", "step", "1 ms", "3 ms"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(name: str) -> None:
    line = Line(name, ((0, 1), (1, 2)))
    pictures: tuple[Picture, ...] = (
        Lines(name, name, "ns", "ns", (line,), limits=(Bar(name, 3),)), Bars(name, "ns", (Bar(name, 1),)),
        Heatmap(name, name, name, "ns", (0,), (0,), ((1,),)),
    )  # fmt: skip
    for picture in pictures:
        found = {element.tag.removeprefix(NAME) for element in ElementTree.fromstring(svg(picture, name)).iter()}
        assert found <= {"svg", "title", "rect", "text", "path"}


@pytest.mark.parametrize(
    "picture",
    [
        Bars("Nothing", "ns", ()),
        Lines("Nothing", "step", None, "ns", (), stacked=True),
        Lines("Nothing", "time", "ns", "bytes", (Line("a", ()),)),
        Lines("Zero", "time", "ns", "bytes", (Line("a", ((0, 0),)),)),
        Heatmap("Nothing", "step", "rank", "ns", (), (), ()),
    ],
)
def test_nothing_is_a_picture_too(picture: Picture) -> None:
    assert texts(picture)[0] == picture.title


CHANGES = Table(
    "Kernels: change from A to B", (("name", None), ("A", "ns"), ("B", "ns"), ("B - A", "ns")),
    (("gone", 30 * MS, None, -30 * MS), ("slower", 10 * MS, 25 * MS, 15 * MS), ("as before", MS, MS, 0)), change=3,
)  # fmt: skip


def test_changes_stand_on_their_side_of_zero_with_sign_and_word() -> None:
    faster, slower, nothing = boxes(CHANGES)
    assert [(width, color) for width, _, color in (faster, slower)] == [(155, "#0072b2"), (77.5, "#c25700")]
    assert nothing[0] == 0
    places = [float(box.attrib["x"]) for box in list(ElementTree.fromstring(svg(CHANGES)).iter(f"{NAME}rect"))[1:]]
    assert places[0] + 155 == places[1] == places[2]
    assert texts(CHANGES)[5:] == [
        "gone", "−30 ms faster", "30 ms → –", "slower", "+15 ms slower", "10 ms → 25 ms", "as before", "0 ns unchanged",
        "1 ms → 1 ms",
    ]  # fmt: skip


def test_of_many_changes_the_first_are_drawn_and_the_rest_is_counted() -> None:
    many = replace(CHANGES, rows=CHANGES.rows * 10)
    assert len(boxes(many)) == 14
    assert texts(many)[-1] == "and 16 more"


@pytest.mark.parametrize("kind", ["faster", "inconclusive"])
def test_an_interval_stands_around_its_estimate_beside_1(kind: Literal["faster", "inconclusive"]) -> None:
    block = Interval("Speed", 1.2, 1.1, 1.3, kind, "It says " + "what it means " * 12, (0.9, 1.5))
    lines = [path.attrib for path in ElementTree.fromstring(svg(block)).iter(f"{NAME}path")]
    (one,) = (line for line in lines if line["stroke"] == "#1b1f24")
    ends = [float(line["d"][1:].partition(" ")[0]) for line in lines[-2:]]
    ((width, _, color),) = boxes(block)
    (point,) = list(ElementTree.fromstring(svg(block)).iter(f"{NAME}rect"))[1:]
    middle = float(point.attrib["x"]) + width / 2
    assert float(one["d"][1:].partition(" ")[0]) < ends[0] < middle < ends[1]
    assert color == ("#0072b2" if kind == "faster" else "#57606a")
    assert "1.2× (95 % interval 1.1–1.3)" in texts(block)
    assert " ".join(texts(block)[-2:]).startswith("It says what it means")


def test_a_long_path_ends_inside_the_picture() -> None:
    root = ElementTree.fromstring(svg(MEAN, "a/" * 200))
    assert len([*root.iter(f"{NAME}text")][1].text or "") < 125
