"""Pictures: what is drawn where, with title, units and legend, and nothing that a name could smuggle in."""

from xml.etree import ElementTree

import pytest

from stepscope.core.report import Bar, Bars, Heatmap, Line, Lines
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
    """Width, height and colour of what is filled, without the ground."""
    found = list(ElementTree.fromstring(svg(picture)).iter(f"{NAME}rect"))[1:]
    return [(float(box.attrib["width"]), float(box.attrib["height"]), box.attrib["fill"]) for box in found]


def test_a_bar_is_as_wide_as_its_shares_and_says_them() -> None:
    (wait, _, orange), (other, _, grey), *legend = boxes(MEAN)
    assert (wait, other) == (684, 228)
    assert [colour for _, _, colour in legend] == [orange, grey]
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
    shades = [colour for _, _, colour in boxes(RANKS)[:3]]
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
