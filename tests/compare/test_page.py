"""The page of a comparison in every format, and its JSON against the schema."""

import json
from importlib.resources import files
from io import StringIO

import jsonschema
import pytest

from stepscope.compare.comparison import Comparison
from stepscope.compare.document import document_of
from stepscope.compare.page import page_of
from stepscope.core.report import Bars
from stepscope.core.synth import Synth
from stepscope.render.html import page_html
from stepscope.render.json import dumps
from stepscope.render.markdown import page_markdown
from stepscope.render.terminal import console_for, print_document

from .training import compared, looped, traced

SCHEMA = json.loads(files("stepscope.compare").joinpath("comparison.schema.json").read_text(encoding="utf-8"))


def hostile() -> Synth:
    return traced(kernel="<script>alert(1)</script>|`x`\x1b[2J")


COMPARISONS = {
    "faster": lambda: compared(looped(41), looped(33, wait=2, seed=2)),
    "devices": lambda: compared(traced(), traced(4, kernel="Cijk_MT64", time=10, extra=True)),
    "recordings": lambda: compared(traced(marks=False), traced()),
    "nothing": lambda: compared(Synth(), Synth()),
    "hostile": lambda: compared(traced(), hostile()),
    "one": lambda: compared(looped(steps=4), looped(steps=5)),
}


@pytest.fixture(params=COMPARISONS)
def comparison(request: pytest.FixtureRequest) -> Comparison:
    return COMPARISONS[request.param]()


def terminal(comparison: Comparison) -> str:
    stream = StringIO()
    print_document(console_for(stream), page_of(comparison))
    return stream.getvalue()


def test_every_format_holds_it_and_no_name_breaks_out(comparison: Comparison) -> None:
    page = page_of(comparison)
    document = json.loads(dumps(document_of(comparison)))
    jsonschema.validate(document, SCHEMA)
    words = document["verdict"]["sentence"]
    drawn, html, markdown = terminal(comparison), page_html(page), page_markdown(page)
    assert " ".join(words.split()) in " ".join(drawn.split())
    assert "<h1>" in html
    for text in (drawn, html, markdown):
        assert "\x1b" not in text
    assert all(len(line) <= 100 for line in drawn.splitlines())


def test_two_bars_have_one_scale() -> None:
    page = page_of(compared(looped(40, noise=0), looped(20, wait=5, noise=0)))
    a, b = (block for block in page.parts[0].blocks if isinstance(block, Bars))
    assert a.whole == b.whole == 40e6
    assert [part.label for part in a.parts] == [part.label for part in b.parts]
    drawn = terminal(compared(looped(40, noise=0), looped(20, wait=5, noise=0))).splitlines()
    first, second = (len(drawn[drawn.index(title) + 1].rstrip()) for title in ("A", "B"))
    assert first == 2 * second or abs(first - 2 * second) == 1


def test_markdown_is_a_comment_with_the_details_folded_up() -> None:
    text = page_markdown(page_of(compared(looped(41), looped(33, wait=2, seed=2))))
    assert text.startswith("### stepscope comparison\n\n**B is 1.2")
    assert text.count("<details>") == text.count("</details>") >= 2
    assert "| phase | A | B |" in text


def test_the_first_screen_says_what_explains_the_change_and_what_differs() -> None:
    drawn = terminal(compared(looped(41, samples=32), looped(33, samples=64, wait=2, seed=2)))
    head = drawn.split("─")[0]
    assert "What explains the change" in head
    assert head.index("data wait", head.index("What explains")) > 0
    assert "The runs differ in: samples in a step of a rank 32 → 64." in " ".join(head.split())


def test_calls_are_named_by_their_path_on_the_first_screen_and_in_full_in_the_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    comparison = compared(traced(time=20), traced(time=10, extra=True))
    drawn = terminal(comparison)
    head = drawn.split("─")[0]
    assert "aten::mm" in head[head.index("call, time on the device") :]
    assert "Calls by path, time on the host" in drawn
    assert "ProfilerStep, outside of the calls in it" in " ".join(drawn.split())
    document = json.loads(dumps(document_of(comparison)))
    rows = {tuple(row["path"]): row for row in document["call_trees"]["device"]["rows"]}
    step, mm, relu = (("ProfilerStep", *name) for name in ((), ("aten::mm",), ("aten::relu",)))
    assert (rows[mm]["a_ns"], rows[mm]["b_ns"], rows[relu]["found"]) == (20_000_000, 10_000_000, "appeared")
    assert (rows[step]["a_ns"], rows[step]["a_total_ns"], rows[step]["b_total_ns"]) == (0, 20_000_000, 15_000_000)


def test_shares_that_would_say_nothing_are_left_out_with_the_reason() -> None:
    drawn = terminal(compared(looped(40, wait=10, noise=0), looped(40.1, wait=20, noise=0)))
    head = " ".join(drawn.split("─")[0].split())
    assert head.count("of the change") == 1
    assert "No shares of the change are given: what grew and what shrank leave 100 µs of 40.1 ms." in head


def test_two_means_of_one_step_are_told_apart() -> None:
    """The device works on after the end of the step on the host."""
    drawn = " ".join(terminal(compared(traced(time=39), traced(time=10))).split())
    assert (
        "These steps go on until their work on the device ends, 40.7 ms → 40 ms; above they end on the host, " in drawn
    )
    assert "These steps go on" not in terminal(compared(traced(time=20), traced(time=10)))


def test_calls_of_a_step_and_of_a_recording_are_not_matched_and_the_page_says_so() -> None:
    drawn = " ".join(terminal(compared(traced(marks=False), traced())).split())
    assert "Calls are not matched by path: only one run has step markers." in drawn
    assert "Calls by path" not in drawn


def test_a_path_says_each_function_of_backward_once() -> None:
    def backward(time: float) -> Synth:
        synth = Synth().host("ProfilerStep#0", "annotation", 0, 40)
        synth.host("autograd::engine::evaluate_function: MmBackward0", "operator", 1, 21)
        return synth.host("MmBackward0", "operator", 2, 20).host("aten::mm", "operator", 3, 3 + time)

    drawn = " ".join(terminal(compared(backward(5), backward(10))).split())
    assert "MmBackward0 › aten::mm 1 1 5 ms 10 ms" in drawn
    assert "MmBackward0 › MmBackward0 1 1 13 ms 8 ms" in drawn
    assert "evaluate_function" not in drawn[: drawn.index("Operators on the host")]
