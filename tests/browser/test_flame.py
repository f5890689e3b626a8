"""Flame graphs in a real browser: what is drawn is what `show` says; mouse, keyboard, address, paper."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from stepscope.analyses.host.line_tree import line_tree
from stepscope.analyses.input_pipeline.loader_line_tree import loader_line_tree
from stepscope.analyses.operators.operator_tree import operator_tree
from stepscope.core.report import Flame, Frame, Node, Text
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.render.format import quantity
from stepscope.render.html import report_html
from stepscope.render.json import dumps, frame_document
from stepscope.report.assemble import assemble

from .test_report_page import report_of, written
from .viewing import Scheme, faults, opened

TREES = {"line_tree": line_tree, "loader_line_tree": loader_line_tree, "operator_tree": operator_tree}
VIEW = "view=flame-graph"
BOXES = "[...document.querySelectorAll('#app .boxes .frame')]"
MAIN = "/me/train.py:9 main"
CONVOLUTION = {"call": "torch/nn/module.py:17 _call_impl", "leaf": "torch/nn/conv.py:54 _conv_forward"}


def recorded() -> Run:
    """Steps of 100 ms with samples, of a worker too, and a trace of one of them with a module."""
    synth = Synth().add("processes", rank=0)
    for step in range(10):
        at = 100 * step
        tags = ("traced",) if step == 9 else ()
        synth.step(step, at, at + 100, data_wait=25, forward=75, tags=tags)
        frames = {"frames": [MAIN, "/me/train.py:7 forward"], "texts": ["main()", "x = conv(x)"]}
        synth.sample(step, at, 25, "data_wait", "/me/data.py", 41, frames=[MAIN, "/me/data.py:41 __getitem__"])
        synth.sample(step, at + 25, 50, "forward", "/me/train.py", 7, function="forward", **frames, **CONVOLUTION)
        synth.sample(step, at + 75, 25, "forward", "/me/train.py", 9, function="main", frames=[MAIN], leaf=MAIN)
    synth.host("ProfilerStep#9", "annotation", 900, 1000).host("nn.Module: Net_0", "python", 910, 960)
    synth.host("aten::mm", "operator", 920, 940).host("cudaLaunchKernel", "runtime", 921, 922)
    return synth.add(
        "worker_stacks", pid="7", worker=0, loader=0, time=1, weight=5 * MS, file="/me/data.py", line=3, function="f",
        frames=["/me/data.py:3 f"],
    ).run()  # fmt: skip


@pytest.fixture(scope="module")
def run() -> Run:
    return recorded()


@pytest.fixture(scope="module")
def page_file(run: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("flame") / "report.html"
    file.write_text(report_html(assemble(run)), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def page(browser: Browser, page_file: str) -> Iterator[Page]:
    with opened(browser, page_file, state=f"{VIEW}&flame-graph.tree=0") as page:  # of the training thread
        yield page


def box(page: Page, name: str) -> Any:
    return page.locator("#app .boxes .frame", has_text=name).first


def told(page: Page) -> dict[str, str]:
    """The figures of the frame that is looked at."""
    found: dict[str, str] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.flame .told dl div')].map(row => "
        "[...row.children].map(cell => cell.textContent)))"
    )
    return found


@pytest.mark.parametrize(("number", "analysis"), list(enumerate(TREES)))
def test_what_is_drawn_is_what_show_says(
    browser: Browser, page_file: str, run: Run, number: int, analysis: str
) -> None:
    of = TREES[analysis]
    rows: Any = json.loads(dumps(frame_document(analysis, of.columns, of(run))))["rows"]
    whole = rows[0]["total"]
    with opened(browser, page_file, state=f"{VIEW}&flame-graph.tree={number}") as page:
        assert page.locator(".flame").get_attribute("data-source") == analysis
        names = page.evaluate(f"{BOXES}.map(box => box.textContent)")
        assert names == [row["name"] for row in rows]
        widths = page.evaluate(f"{BOXES}.map(box => box.getBoundingClientRect().width)")
        assert widths == pytest.approx([row["total"] / whole * widths[0] for row in rows], abs=0.1)
        for at, row in enumerate(rows):
            page.evaluate(f"{BOXES}[{at}].focus()")
            figures = told(page)
            assert figures["Total"] == quantity(row["total"], "ns")
            assert figures["Self"] == quantity(row["self"], "ns")
            assert figures["Share of the tree"] == quantity(row["total"] / whole, "ratio")


def test_a_click_zooms_back_and_escape_undo_it_and_the_address_keeps_it(page: Page, browser: Browser) -> None:
    width = page.evaluate(f"{BOXES}[0].getBoundingClientRect().width")
    box(page, "forward train.py:7").click()
    shown = box(page, "forward train.py:7")
    expect(shown).to_be_focused()
    assert shown.bounding_box()["width"] == pytest.approx(width, abs=1)
    assert page.evaluate(f"{BOXES}.length") == 6  # its way from the root, and what is below it
    assert (told(page)["Share of the tree"], told(page)["Share of what is shown"]) == ("50 %", "100 %")
    kept = page.url
    page.go_back()
    expect(page.locator("#app .boxes .frame")).to_have_count(9)
    page.go_forward()
    expect(page.locator("#app .boxes .frame")).to_have_count(6)
    box(page, "forward train.py:7").focus()
    page.keyboard.press("Escape")
    expect(page.locator("#app .boxes .frame")).to_have_count(9)
    with opened(browser, kept.partition("#")[0], state=kept.partition("#")[2]) as again:
        assert again.evaluate(f"{BOXES}.length") == 6
        box(again, "step").click()
        expect(again.locator("#app .boxes .frame")).to_have_count(9)
        assert "zoom" not in again.url


def test_arrows_lead_from_frame_to_frame_and_enter_zooms(page: Page) -> None:
    focused = "document.activeElement.textContent"
    page.evaluate(f"{BOXES}[0].focus()")
    walk = [("ArrowDown", "data wait"), ("ArrowRight", "forward"), ("ArrowDown", "main train.py:9"),
            ("ArrowLeft", "main train.py:9"), ("ArrowUp", "data wait"), ("Home", "step")]  # fmt: skip
    for key, name in walk:
        page.keyboard.press(key)
        assert page.evaluate(focused) == name
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Show all")).to_be_visible()
    assert page.evaluate(focused) == "data wait"
    page.keyboard.press("/")
    expect(page.get_by_placeholder("Search frames")).to_be_focused()
    assert page.locator("#app .boxes [tabindex='0']").count() == 1


def test_a_search_says_the_share_that_matches_and_counts_nothing_twice(browser: Browser, page_file: str) -> None:
    with opened(browser, page_file, state=f"{VIEW}&flame-graph.tree=0") as page:
        page.get_by_placeholder("Search frames").fill("train.py")
        matched = page.locator(".matched")
        assert matched.inner_text() == "Matched: 100 ms, 100 % of what is shown, 3 frames"
        page.get_by_placeholder("Search frames").fill("CONV")
        assert matched.inner_text() == "Matched: 50 ms, 50 % of what is shown, 1 frame"
        assert page.locator(".boxes .hit").all_inner_texts() == ["_conv_forward conv.py:54"]
        assert faults(page) == []
        kept = page.url
    with opened(browser, page_file, state=kept.partition("#")[2]) as page:
        assert page.locator(".matched").inner_text().startswith("Matched: 50 ms")


def test_a_frame_tells_its_place_which_opens_the_editor(page: Page) -> None:
    box(page, "forward train.py:7").hover()
    link = page.locator(".flame .told a")
    assert link.get_attribute("href") == "vscode://file/me/train.py:7"
    assert page.locator(".flame .told .line").inner_text() == "x = conv(x)"
    page.locator("main h2").hover()
    assert page.locator(".flame .told .name").inner_text() == "step all"


def test_trees_are_chosen_and_all_nodes_are_in_a_table(page: Page) -> None:
    page.get_by_label("Tree").select_option(label="Operators, thread 1")
    expect(page.locator("#app .boxes .frame").first).to_have_text("thread 1")
    expect(page.get_by_label("Tree")).to_be_focused()
    page.locator(".as-table summary").click()
    expect(page.locator(".flame tbody tr")).to_have_count(5)
    names = page.evaluate("[...document.querySelectorAll('.flame tbody tr')].map(row => row.cells[1].textContent)")
    assert names == ["thread 1", "ProfilerStep", "Net_0", "aten::mm", "cudaLaunchKernel"]


@pytest.mark.parametrize(("scheme", "language", "width"), [("light", "en", 1280), ("dark", "zh", 400)])
def test_it_is_readable(browser: Browser, page_file: str, scheme: Scheme, language: str, width: int) -> None:
    for tree in ("", "1", "2"):
        state = f"{VIEW}&lang={language}&flame-graph.tree={tree}&flame-graph.find=train"
        with opened(browser, page_file, scheme=scheme, width=width, state=state) as page:
            assert faults(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") == width
            words = page.locator(".flame .hints").inner_text()
            assert ("点击" in words) == (language == "zh")


def test_all_trees_are_printed(page: Page) -> None:
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("#paper .flame").count() == 3
    assert page.locator("#paper .boxes .frame").first.is_visible()
    assert not page.locator("#paper .flame .controls").first.is_visible()


def test_hostile_names_and_addresses_do_nothing(browser: Browser, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>\u202e"
    frames = (Frame(name, "user", f"/javascript:{name}", 1, name), Frame("nothing", "rest"))
    nodes = (Node(0, -1, 1, 1, 1), Node(1, 0, 0, 0, 0))
    flame = Flame(name, "ns", frames, nodes, "calls", None, Text("x"), name)
    state = "view=x&x.tree=99&x.zoom=nowhere&x.find=%3Cimg"
    with opened(browser, written(report_of(flame), tmp_path), state=state) as page:
        assert page.locator("#app img").count() == 0
        assert page.locator(".boxes .frame").first.inner_text() == name.replace("\u202e", "\\u202e")
        assert page.locator(".matched").inner_text().startswith("Matched: 1 ns, 100 %")


def test_deep_and_wide_trees_say_what_is_too_narrow(browser: Browser, tmp_path: Path) -> None:
    frames = (Frame("step", "root"), Frame("main", "user"))
    nodes = (Node(0, -1, 0, 10_000, 1), Node(1, 0, 9_997, 9_997, 1), *(Node(1, 0, 1, 1, 1) for _ in range(3)))
    flame = Flame("Wide", "ns", frames, nodes, "calls", None, Text("x"), "line_tree")
    with opened(browser, written(report_of(flame), tmp_path), state="view=x") as page:
        assert page.locator(".boxes .frame").count() == 2
        assert page.get_by_text("Frames narrower than a pixel, not drawn: 3").is_visible()


def test_trees_leave_the_file_small(corpus: Path) -> None:
    """A trace of a hundred thousand host events, with Python frames: what a page holds of it is bounded."""
    from stepscope.storage import open_run

    trace = corpus / "traces" / "tracelens" / "mi300" / "google_owlv2-large-patch14-ensemble__1016001.json.gz"
    page = report_html(assemble(open_run([str(trace)])))
    assert len(page.encode()) < 1_500_000


def waiting() -> Run:
    """Training that waits in `select` half of its time, for workers whose one line takes all of theirs."""
    synth = Synth().add("processes", rank=0)
    for step in range(10):
        at = 100 * step
        synth.step(step, at, at + 100, data_wait=50, forward=50)
        frames = [MAIN]
        synth.sample(step, at, 50, "data_wait", "/me/train.py", 9, frames=frames, leaf="selectors.py:415 select")
        synth.sample(step, at + 50, 50, "forward", "/me/train.py", 9, frames=frames, leaf="torch/nn/conv.py:54 forward")
    return synth.add(
        "worker_stacks", pid="7", worker=0, loader=0, time=1, weight=5 * MS, file="/me/data.py", line=3, function="f",
        frames=["/me/data.py:3 f"],
    ).run()  # fmt: skip


def test_idle_frames_are_folded_until_they_are_asked_for(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(report_html(assemble(waiting())), encoding="utf-8")
    with opened(browser, file.as_uri(), state=f"{VIEW}&flame-graph.tree=0") as page:
        expect(page.locator(".idle")).to_contain_text("50 ms (50 %)")
        assert not page.locator(".boxes .frame", has_text="select").count()
        wide = page.locator(".boxes .frame", has_text="forward conv.py").bounding_box()
        whole = page.locator(".boxes").bounding_box()
        assert wide is not None and whole is not None and wide["width"] == pytest.approx(whole["width"], abs=2)
        page.locator(".idle button").click()
        expect(page.locator(".boxes .frame", has_text="select")).to_have_count(1)
        assert "flame-graph.idle=1" in page.url
        assert faults(page) == []


def test_it_opens_on_the_tree_in_which_the_first_finding_is(browser: Browser, tmp_path: Path) -> None:
    run = waiting()
    report = assemble(run)
    file = tmp_path / "report.html"
    file.write_text(report_html(report), encoding="utf-8")
    assert report.findings, "training that waits is a finding"
    with opened(browser, file.as_uri()) as page:
        page.locator(".finding .actions a", has_text="Flame graph").first.click()
        chosen = page.locator(".flame figcaption")
        expect(chosen).to_contain_text("Lines of the workers")
        expect(page.locator(".flame .controls select")).to_have_value("1")
