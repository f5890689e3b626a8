"""The HTML report in a real browser: from disk, without a network, light and dark, narrow and wide, and on paper."""

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser

from stepscope.cli._assemble import assemble
from stepscope.core.finding import Advice, Finding, Place, Rule
from stepscope.core.plugins import Group
from stepscope.core.report import Bar, Bars, FindingBlock, Table, Verdict
from stepscope.core.synth import Synth
from stepscope.render.document import Part, Report, RunFacts
from stepscope.render.html import report_html

WIDE, TELEPHONE, NARROW = 1280, 420, 360


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on a job that waits for its loader, with long names."""
    synth = Synth()
    Group("rules", Rule).get("input-bound").example(synth, False)
    synth.add("skipped", source="trace.json", reason="kernel " + "void gemm<float, " * 40, count=3)
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(report_html(assemble(synth.run())), encoding="utf-8")
    return file


@pytest.mark.parametrize("width", [WIDE, TELEPHONE, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_from_disk_without_a_network(
    browser: Browser, page_file: Path, scheme: Literal["light", "dark"], width: int
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800}, offline=True)
    page = context.new_page()
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(page_file.as_uri())
    assert requests == [page_file.as_uri()]
    assert complaints == []
    assert page.locator("h1").inner_text().startswith("Input-bound: ")
    assert page.locator("article").first.is_visible()
    assert page.locator(".gain").first.inner_text().startswith("saves ")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    ink, paper = (page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
    assert contrast(ink, paper) >= 7
    assert (luminance(paper) > 0.5) == (scheme == "light")
    quiet = page.evaluate("getComputedStyle(document.querySelector('.quiet, .path')).color")
    assert contrast(quiet, paper) >= 4.5
    context.close()


def test_the_bar_is_as_wide_as_its_shares(browser: Browser, tmp_path: Path) -> None:
    verdict = Verdict("input", 0.75, 4e6)
    bars = Bars("One step", "ns", (Bar("data wait", 3e6), Bar("other", 1e6)))
    facts = RunFacts(path="x", command=None, framework=None, ranks=(), devices=(), steps=1, step_ns=None)
    part = Part(name="summary", title="Summary", blocks=(verdict, bars))
    report = Report(run=facts, verdict=verdict, findings=(), checked=(), unchecked=(), skipped=(), parts=(part,))
    file = tmp_path / "report.html"
    file.write_text(report_html(report), encoding="utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    widths = page.evaluate("[...document.querySelectorAll('rect')].map(r => r.getBoundingClientRect().width)")
    assert widths[0] == pytest.approx(3 * widths[1], rel=1e-3)
    colours = page.evaluate("[...document.querySelectorAll('rect')].map(r => getComputedStyle(r).fill)")
    keys = page.evaluate("[...document.querySelectorAll('.legend i')].map(i => getComputedStyle(i).backgroundColor)")
    assert colours == keys
    assert len(set(colours)) == 2
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_telephone_shows_long_places_and_tables_without_scrolling_the_page(
    browser: Browser, tmp_path: Path, scheme: Literal["light", "dark"]
) -> None:
    file = tmp_path / "report.html"
    file.write_text(report_html(long_names()), encoding="utf-8")
    context = browser.new_context(color_scheme=scheme, viewport={"width": TELEPHONE, "height": 900})
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == TELEPHONE
    for locator in (page.locator(".places code"), page.locator(".stacks td")):
        assert locator.count() > 1
        for box in (element.bounding_box() for element in locator.all()):
            assert box
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= TELEPHONE
    assert not page.locator(".stacks thead").is_visible()
    labels = "[...document.querySelectorAll('.stacks td')].map(cell => getComputedStyle(cell, '::before').content)"
    assert page.evaluate(labels) == ['"line"', '"code"', '"calls into"', '"mean"']
    numbers = page.locator(".scroll").nth(1)
    assert numbers.evaluate("box => box.scrollWidth > box.clientWidth")
    numbers.evaluate("box => { box.scrollLeft = 1e6 }")
    last = page.locator("td").last.bounding_box()
    assert last
    assert last["x"] + last["width"] <= TELEPHONE
    context.close()


def test_a_hostile_name_runs_nothing(browser: Browser, tmp_path: Path) -> None:
    verdict = Verdict("unknown", None, None, "no steps")
    name = "<img src=x onerror=alert(1)><script>document.title='owned'</script>"
    table = Table(name, ((name, None),), ((name,),))
    facts = RunFacts(path=name, command=None, framework=None, ranks=(), devices=(), steps=0, step_ns=None)
    parts = (Part(name="summary", title="Summary", blocks=(verdict,)), Part(name="x", title=name, blocks=(table,)))
    report = Report(run=facts, verdict=verdict, findings=(), checked=(), unchecked=(), skipped=(), parts=parts)
    file = tmp_path / "report.html"
    file.write_text(report_html(report), encoding="utf-8")
    page = browser.new_page()
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    page.goto(file.as_uri())
    assert page.title() != "owned"
    assert page.locator("img, script").count() == 0
    assert page.locator("td").inner_text() == name
    assert dialogs == []
    page.close()


def test_it_prints_in_black_on_white(browser: Browser, page_file: Path) -> None:
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(page_file.as_uri())
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert not page.locator("nav").is_visible()
    assert page.pdf().startswith(b"%PDF")
    context.close()


def long_names() -> Report:
    """A finding and a table with long places, and a table of many numbers."""
    file = "/home/someone/projects/segmentation/" + "a_long_folder_name/" * 6 + "train.py"
    place = Place(file=file, line=1234, symbol="evaluate_on_all_validation_sets", text="x = " + "a_function(" * 12)
    row = (file, place.text, "torch/nn/modules/module.py:1778 _wrapped_call_impl", 5)
    lines = Table("Lines", (("line", None), ("code", None), ("calls into", None), ("mean", "ns")), (row,))
    numbers = Table("", tuple((f"column {i}", "ns") for i in range(12)), (tuple(range(10**9, 10**9 + 12)),))
    advice = Advice(text="Do", code="y = " + "g(" * 60)
    finding = Finding(
        title="A problem", cause="model", evidence=(), gain=None, advice=(advice,), ranks=(0,), where=(place,)
    )
    verdict = Verdict("input", 0.5, 4e6)
    facts = RunFacts(path="x", command=None, framework=None, ranks=(), devices=(), steps=1, step_ns=None)
    parts = (
        Part(name="summary", title="Summary", blocks=(verdict,)),
        Part(name="x", title="X", blocks=(FindingBlock("a-rule", finding), lines, numbers)),
    )
    return Report(run=facts, verdict=verdict, findings=(), checked=(), unchecked=(), skipped=(), parts=parts)


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)` (WCAG 2.2)."""
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio (WCAG 2.2): 4.5 is readable for text, 7 comfortable."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
