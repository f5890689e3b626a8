"""Flame graphs as text and as a picture: the heaviest paths, boxes within boxes, and what is left out is told."""

import io
from xml.etree import ElementTree

import pytest

from stepscope.core.report import Flame, Frame, Node, Text, Value
from stepscope.render.finite import finite
from stepscope.render.flames import boxes, heaviest, unlisted
from stepscope.render.format import text
from stepscope.render.json import report_document
from stepscope.render.markdown import report_markdown
from stepscope.render.svg import svg
from stepscope.render.terminal import console_for
from stepscope.render.terminal_card import print_report

from ..browser.test_report_page import report_of
from .conftest import HOSTILE

MS = 1_000_000
FRAMES = (
    Frame("step", "root"),
    Frame("main train.py:9", "user", "/me/train.py", 9, "main()"),
    Frame("forward train.py:7", "user", "/me/train.py", 7),
    Frame("conv module.py:5", "library", "torch/nn/module.py", 5),
    Frame("3 smaller", "rest"),
)
NODES = (
    Node(0, -1, 0, 100 * MS, 10),
    Node(1, 0, 0, 100 * MS, 10),
    Node(2, 1, 20 * MS, 70 * MS, 7),
    Node(3, 2, 50 * MS, 50 * MS, 5),
    Node(3, 1, 25 * MS, 25 * MS, 2),
    Node(4, 1, 5 * MS, 5 * MS, 1),
)
NOTE = Text("Mean of {} steps.", (Value(3, "count"),))
FLAME = Flame("Lines of your code", "ns", FRAMES, NODES, "samples", None, NOTE, "line_tree")


def many_nodes(count: int) -> Flame:
    """A root with so many children, each of 1 ms."""
    nodes = (Node(0, -1, 0, count * MS, count), *(Node(1, 0, MS, MS, 1) for _ in range(count)))
    return Flame("Many", "ns", FRAMES, nodes, "calls", 3, NOTE, "operator_tree")


def test_nodes_that_are_all_of_their_parent_share_its_line() -> None:
    found = [(path.depth, path.name, path.total, path.own, path.share) for path in heaviest(FLAME)]
    assert found == [
        (0, "step › main train.py:9", 100 * MS, 0, 1.0),
        (1, "forward train.py:7", 70 * MS, 20 * MS, 0.7),
        (2, "conv module.py:5", 50 * MS, 50 * MS, 0.5),
        (1, "conv module.py:5", 25 * MS, 25 * MS, 0.25),
        (1, "3 smaller", 5 * MS, 5 * MS, 0.05),
    ]
    assert unlisted(FLAME) is None


def test_what_is_not_listed_is_counted() -> None:
    flame = many_nodes(40)
    left = unlisted(flame)
    assert left is not None
    listed = len(heaviest(flame))
    assert text(left) == f"{41 - listed} smaller frames are not listed: `stepscope show operator_tree PATH`"


def test_boxes_lie_within_their_parent_and_beside_their_siblings() -> None:
    assert [(box.row, round(box.left, 3), round(box.width, 3)) for box in boxes(FLAME)] == [
        (0, 0, 1), (1, 0, 1), (2, 0, 0.7), (3, 0, 0.5), (2, 0.7, 0.25), (2, 0.95, 0.05),
    ]  # fmt: skip


def test_the_terminal_prints_paths_indented_with_their_figures() -> None:
    stream = io.StringIO()
    print_report(console_for(stream), report_of(FLAME))
    lines = stream.getvalue().splitlines()
    at = lines.index("Lines of your code")
    assert lines[at + 1 : at + 8] == [
        "Mean of 3 steps.",
        " total  share   self",
        "100 ms  100 %   0 ns  step › main train.py:9",
        " 70 ms   70 %  20 ms    forward train.py:7",
        " 50 ms   50 %  50 ms      conv module.py:5",
        " 25 ms   25 %  25 ms    conv module.py:5",
        "  5 ms    5 %   5 ms    3 smaller",
    ]


def test_markdown_has_a_list_within_a_list() -> None:
    lines = report_markdown(report_of(FLAME)).splitlines()
    at = lines.index("**Lines of your code**")
    assert lines[at + 1 : at + 7] == [
        "",
        "Mean of 3 steps.",
        "",
        "- step › main train.py:9: 100 ms, 100 %",
        "  - forward train.py:7: 70 ms, 70 %, itself 20 ms",
        "    - conv module.py:5: 50 ms, 50 %",
    ]


def test_json_has_every_node_with_its_figures() -> None:
    document = finite(report_document(report_of(FLAME)))
    assert isinstance(document, dict)
    block = document["sections"][1]["blocks"][0]
    assert block["nodes"][2] == [2, 1, 20 * MS, 70 * MS, 7]
    assert block["frames"][1] == {
        "name": "main train.py:9", "kind": "user", "file": "/me/train.py", "line": 9, "text": "main()",
    }  # fmt: skip
    assert (block["counts"], block["steps"], block["note"]) == ("samples", None, "Mean of 3 steps.")


def test_a_picture_has_names_where_they_have_room_and_tells_the_rest() -> None:
    root = ElementTree.fromstring(svg(FLAME, "a run"))
    name = "{http://www.w3.org/2000/svg}"
    titles = [element.text for element in root.iter(f"{name}title")]
    assert "conv module.py:5: 50 ms, 50 %" in titles
    words = [element.text for element in root.iter(f"{name}text")]
    assert {"your code", "libraries", "forward train.py:7"} <= set(words)
    assert words[-1] == "Mean of 3 steps."


def test_a_picture_of_a_deep_tree_ends_and_says_so() -> None:
    nodes = (Node(0, -1, 0, MS, 1), *(Node(1, at, MS if at == 98 else 0, MS, 1) for at in range(99)))
    deep = Flame("Deep", "ns", FRAMES, nodes, "calls", None, NOTE, "operator_tree")
    assert svg(deep).count("<g>") == 36
    assert "Deeper than is drawn: 64 frames." in svg(deep)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_names_are_text(hostile: str) -> None:
    frames = (Frame(hostile, "user", hostile, 1, hostile),)
    flame = Flame(hostile, "ns", frames, (Node(0, -1, 1, 1, 1),), "calls", None, Text("x"), "operator_tree")
    found = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(svg(flame, hostile)).iter()}
    assert found <= {"svg", "title", "rect", "text", "path", "g"}
    stream = io.StringIO()
    print_report(console_for(stream), report_of(flame))
    assert "\x1b" not in stream.getvalue()
    assert "\u202e" not in stream.getvalue()


def test_nothing_is_a_picture_too() -> None:
    flame = Flame("Nothing", "ns", (Frame("step", "root"),), (Node(0, -1, 0, 0, 0),), "calls", None, NOTE, "line_tree")
    assert "Nothing" in svg(flame)
    assert heaviest(flame) == []
