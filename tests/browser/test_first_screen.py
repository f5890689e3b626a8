"""The first screen of a report: verdict, bar and first finding are seen without scrolling, the rest is one key away."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Title
from stepscope.core.report import Bar, Bars, FindingBlock, Line, Lines, Verdict
from stepscope.render.document import Part, Report, RunFacts, StepTimes, Unchecked
from stepscope.render.html import report_html

from .viewing import Scheme, faults, keep, opened

MS = 1_000_000
ROOT = Path(__file__).parents[2]
LAPTOP = {"width": 1280, "height": 720}
SOURCE = ("    with open(self.annotations) as f:", "        data = json.load(f)", "    return data[index]")


def finding(title: str, *, line: int = 45) -> Finding:
    labels = ("data wait per step", "loads per batch", "num_workers", "share of loading CPU", "CPU-bound share")
    evidence = tuple(Evidence(label=label, value=5.0, unit="count", source="loaders") for label in labels)
    place = Place(
        file="/home/me/dataset.py", line=line, symbol="annotation", text=SOURCE[1], share=0.57, of="loading time",
        first=line - 1, around=SOURCE,
    )  # fmt: skip
    advice = (
        Advice(text="Load the file once in `__init__`", code="self.data = json.load(open(path))"),
        Advice(text="Or keep it in a memory map", code="np.load(path, mmap_mode='r')"),
    )
    gain = Gain(low_ns=52 * MS, high_ns=82 * MS, step_ns=90 * MS, basis="simulated: 2× to 10×", confidence="structural")
    return Finding(
        title=Title(title), cause="data-reading", evidence=evidence, gain=gain, advice=advice, ranks=(0,),
        where=(place, Place(file="/home/me/train.py", line=9)), trial="stepscope tune loader RUN",
    )  # fmt: skip


@pytest.fixture(scope="module")
def report() -> Report:
    verdict = Verdict("input", 0.9, 90.7 * MS, rank=0, ranks=(0,), of_ranks=1, steps=40)
    steps = Lines(
        "Each step", "step", None, "ns",
        tuple(Line(name, tuple((at, ns) for at in range(40))) for name, ns in (("data wait", 8e7), ("forward", 9e6))),
        stacked=True,
    )  # fmt: skip
    bar = Bars("One step, mean", "ns", (Bar("data wait", 80.0 * MS), Bar("forward", 9.0 * MS)))
    times = StepTimes(median=90 * MS, mean=90 * MS, p10=80 * MS, p90=99 * MS)
    facts = RunFacts(
        path="run", command=("python", "train.py"), framework="torch", ranks=(0,), devices=(), steps=40, step_ns=times
    )
    found = (
        finding("json.load re-reads one file for every sample"),
        finding("The same again", line=60),
        finding("And once more", line=70),
    )
    return Report(
        run=facts, verdict=verdict, findings=tuple(FindingBlock("repeated-file-load", one) for one in found),
        checked=("repeated-file-load", "few-workers", "slow-storage"),
        unchecked=(Unchecked(rule="small-kernels", missing="device work", how="record on a GPU"),), skipped=(),
        parts=(
            Part(name="summary", title="Summary", blocks=(verdict, bar)),
            Part(name="step-times", title="Step times", blocks=(steps,)),
        ),
    )  # fmt: skip


@pytest.fixture(scope="module")
def address(report: Report, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("first") / "report.html"
    file.write_text(report_html(report), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with opened(browser, address, height=LAPTOP["height"], permissions=["clipboard-read", "clipboard-write"]) as page:
        yield page


def glossary() -> dict[str, str]:
    """What the page was built with."""
    found: dict[str, str] = json.loads((ROOT / "web-app/src/words/glossary.json").read_text(encoding="utf-8"))
    return found


def bottom(page: Page, selector: str) -> float:
    box = page.locator(selector).first.bounding_box()
    assert box is not None, selector
    return box["y"] + box["height"]


def test_all_that_decides_is_seen_without_scrolling(page: Page) -> None:
    for part in (
        "h1",
        ".bar",
        ".sparkline",
        ".finding h3",
        ".finding .gain",
        ".finding .hot",
        ".finding pre",
        ".finding .why",
        ".finding .actions",
    ):
        assert bottom(page, part) < LAPTOP["height"], part
    assert page.locator(".finding").first.locator(".why li").count() == 3
    assert not page.locator(".finding .evidence").first.is_visible()
    assert not page.locator(".facts").first.is_visible()
    box = page.locator(".sparkline").bounding_box()
    assert box is not None and box["height"] == pytest.approx(41, abs=1)


def test_the_line_at_fault_is_marked_among_those_around_it(page: Page) -> None:
    first = page.locator(".finding").first
    lines = first.locator(".source-lines span").all_inner_texts()
    assert [" ".join(line.split()) for line in lines[:3]] == [
        "44 with open(self.annotations) as f:", "▶ 45 data = json.load(f)", "46 return data[index]",
    ]  # fmt: skip
    assert first.locator(".source-lines .hot").inner_text().strip().endswith("data = json.load(f)")
    assert first.locator(".place .share").first.inner_text() == "57 % of loading time"
    assert "stepscope tune loader RUN" in first.locator(".card").inner_text()


@pytest.mark.parametrize(
    ("scheme", "width", "language"), [("light", 390, "en"), ("dark", 1280, "zh"), ("dark", 390, "zh")]
)
def test_it_is_readable_everywhere(browser: Browser, address: str, scheme: Scheme, width: int, language: str) -> None:
    with opened(browser, address, scheme=scheme, width=width, height=720, state=f"lang={language}") as page:
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert faults(page) == []
        keep(page, f"first-{scheme}-{width}-{language}")


def test_a_finding_has_an_address_and_back_keeps_the_place(browser: Browser, address: str) -> None:
    with opened(browser, address, height=500, state="finding=repeated-file-load-3") as page:
        third = page.locator(".finding").nth(2)
        expect(third).to_be_in_viewport()
        assert third.evaluate("one => one.classList.contains('marked')")
        page.locator(".finding h3 a").nth(1).click()
        expect(page.locator(".finding").nth(1)).to_be_in_viewport()
        assert "finding=repeated-file-load-2" in page.url
        page.evaluate("document.querySelector('main').scrollTop = 333")
        page.locator(".finding .actions a", has_text="Why").nth(1).evaluate("link => link.click()")  # without scrolling
        expect(page.locator("main h1")).to_have_text("repeated-file-load")
        page.go_back()
        expect(page.locator(".finding")).to_have_count(3)
        assert page.evaluate("document.querySelector('main').scrollTop") == 333
        page.go_forward()
        expect(page.locator("main h1")).to_have_text("repeated-file-load")


def test_terms_say_what_they_mean_by_mouse_and_keyboard(page: Page) -> None:
    meanings = glossary()
    term = page.locator(".why .term", has_text="data wait").first
    term.hover()
    expect(page.locator(".help-tip")).to_have_text(meanings["data wait"].replace("`", ""))
    page.locator("h1").hover(position={"x": 700, "y": 5})
    expect(page.locator(".help-tip")).to_have_count(0)
    page.locator(".legend .term").first.focus()
    expect(page.locator(".help-tip")).to_have_text(meanings["data wait"].replace("`", ""))
    assert page.locator(".legend .term").first.get_attribute("aria-describedby") == "help-tip"
    page.keyboard.press("Escape")
    expect(page.locator(".help-tip")).to_have_count(0)
    page.locator(".legend .term").first.blur()
    term.hover()
    page.mouse.wheel(0, 200)
    expect(page.locator(".help-tip")).to_have_count(0)


def test_the_sparkline_opens_the_chart_by_keyboard(page: Page) -> None:
    page.locator(".spark summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".spark .chart canvas")).to_be_visible()


def test_the_foot_counts_what_was_checked(page: Page) -> None:
    assert page.locator(".checks summary").all_inner_texts()[:2] == ["2 checks clear", "1 check needs more data"]
    page.locator(".checks summary").first.click()
    page.locator(".checks a", has_text="few-workers").click()
    expect(page.locator("main h1")).to_have_text("few-workers")
    assert faults(page) == []


def test_a_finding_is_copied_with_its_code(page: Page) -> None:
    page.locator(".finding .actions button", has_text="Copy").first.click()
    page.wait_for_function("() => document.querySelector('.finding .actions button').textContent === 'Copied'")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("**json.load re-reads one file for every sample**: could save 58–91 %")
    assert "```python\nself.data = json.load(open(path))\n```" in copied


def test_the_words_of_the_page_are_those_of_the_documentation() -> None:
    documented = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    for term in ("data wait", "host", "straggler", "critical path"):
        assert f"| {term} | {glossary()[term]} |" in documented
    assert "renderer" not in glossary(), "terms of the code are no terms of a run"
