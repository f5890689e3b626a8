"""The report as a file in a real browser: from disk, without a network, light and dark, narrow and wide, on paper."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from stepscope.core.finding import Advice, Finding, Place, Title
from stepscope.core.report import Bar, Bars, FindingBlock, Heatmap, Line, Lines, Table, Verdict
from stepscope.core.schema import Unit
from stepscope.render.document import Part, Report, RunFacts
from stepscope.render.format import cell, title_text
from stepscope.render.html import report_html
from stepscope.render.json import dumps, report_document
from stepscope.render.verdict import sentence
from stepscope.report.assemble import assemble
from stepscope.storage import open_run

from ..report.sections.test_sections import full
from .viewing import WIDE, Scheme, faults, go, keep, opened, views

TELEPHONE = 400


@pytest.fixture(scope="module")
def report() -> Report:
    """Of a run that has everything."""
    return assemble(full())


@pytest.fixture(scope="module")
def page_file(report: Report, tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(report, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def page(browser: Browser, page_file: str) -> Iterator[Page]:
    """For tests that only look."""
    with opened(browser, page_file) as page:
        yield page


def written(report: Report, folder: Path) -> str:
    file = folder / "report.html"
    file.write_text(report_html(report), encoding="utf-8")
    return file.as_uri()


def report_of(*blocks: Any, name: str = "x") -> Report:
    """A report with one section."""
    verdict = Verdict("input", 0.75, 4e6)
    facts = RunFacts(path=name, command=None, framework=None, ranks=(), devices=(), steps=1, step_ns=None)
    parts = (Part(name="summary", title="Summary", blocks=(verdict,)), Part(name="x", title=name, blocks=blocks))
    return Report(run=facts, verdict=verdict, findings=(), checked=(), unchecked=(), skipped=(), parts=parts)


@pytest.mark.parametrize(("scheme", "language"), [("light", "en"), ("dark", "zh")])
def test_every_view_is_readable(
    browser: Browser, page_file: str, report: Report, scheme: Scheme, language: str
) -> None:
    with opened(browser, page_file, scheme=scheme, state=f"lang={language}") as page:
        names = views(page)
        assert set(names) == {"overview"} | {
            part.name for part in report.parts if part.blocks and part.name not in ("summary", "findings")
        }
        assert page.evaluate("document.documentElement.lang") == {"en": "en", "zh": "zh-CN"}[language]
        assert (
            page.locator("h1").inner_text().startswith({"en": "Data-loading bound: ", "zh": "数据加载受限："}[language])
        )
        for name in names:
            go(page, view=name)
            assert page.evaluate("document.documentElement.scrollWidth") == WIDE
            assert faults(page, *(() if scheme == "light" else ("color-contrast",))) == [], name
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
        assert dark == (scheme == "dark")


def test_a_telephone_scrolls_no_view_sideways(browser: Browser, page_file: str) -> None:
    with opened(browser, page_file, width=TELEPHONE) as page:
        for name in views(page):
            go(page, view=name)
            assert page.evaluate("document.documentElement.scrollWidth") == TELEPHONE, name
        assert faults(page) == []
        page.locator(".folded summary").click()
        assert page.locator("nav a").first.is_visible()


def as_shown(value: Any, unit: Unit | None) -> str:
    """A cell as the page has it: no rule of a list is left out."""
    if isinstance(value, str) and re.fullmatch(r"[a-z-]+(, [a-z-]+)+", value):
        return value
    return cell(value, unit).replace("`", "")


def test_every_table_shows_what_the_json_report_says(page: Page, report: Report) -> None:
    document = json.loads(dumps(report_document(report)))
    checked = 0
    for section in document["sections"]:
        tables = [block for block in section["blocks"] if block["kind"] == "table"]
        if not tables or section["name"] in ("summary", "findings"):
            continue
        go(page, view=section["name"])
        shown = page.evaluate(
            "[...document.querySelectorAll('main table')].map(table => [...table.tBodies[0].rows].map(row => "
            "[...row.cells].map(cell => cell.textContent.replaceAll('\\u00a0', ' '))))"
        )
        for rows, block in zip(shown, tables, strict=True):
            units = [column["unit"] for column in block["columns"]]
            assert rows == [
                [as_shown(value, unit) for value, unit in zip(row, units, strict=True)] for row in block["rows"]
            ]
            checked += len(rows)
    assert checked > 20


def test_findings_stand_in_order_with_evidence_gain_place_and_code(page: Page, report: Report) -> None:
    page.evaluate("location.hash = ''")
    page.locator(".finding").first.wait_for()
    titles = [title.replace("\u00a0", " ") for title in page.locator(".finding h3").all_inner_texts()]
    assert titles == [title_text(block.finding.title) for block in report.findings]
    first = page.locator(".finding").first
    assert first.locator(".gain").inner_text().startswith("could save ")
    assert first.locator(".evidence dd").count() == len(report.findings[0].finding.evidence)


def test_code_is_copied_and_places_open_the_editor_that_was_chosen(browser: Browser, tmp_path: Path) -> None:
    place = Place(file="/home/me/a b/train.py", line=41, symbol="__getitem__", text="image = resize(image)")
    advice = Advice(text="Load in workers", code="DataLoader(\n\tdataset,\n\tnum_workers=2)")
    finding = Finding(
        title=Title("Slow"), cause="model", evidence=(), gain=None, advice=(advice,), ranks=(0,), where=(place,)
    )
    address = written(report_of(FindingBlock("a-rule", finding)), tmp_path)
    with opened(browser, address, state="view=x", permissions=["clipboard-read", "clipboard-write"]) as page:
        link = page.locator(".places a")
        assert link.get_attribute("href") == "vscode://file/home/me/a%20b/train.py:41"
        assert link.inner_text() == "/home/me/a b/train.py:41 in __getitem__"
        page.get_by_role("button", name="Settings").click()
        assert faults(page) == []
        page.get_by_label("Places in the code open in").select_option("Cursor")
        page.get_by_role("button", name="Keep").click()
        assert link.get_attribute("href") == "cursor://file/home/me/a%20b/train.py:41"
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("Address that opens").fill("javascript:alert('{file}')")
        page.keyboard.press("Enter")
        assert page.get_by_role("alert").inner_text().startswith("An address begins with")
        page.get_by_label("Address that opens").fill("mine://{file}?at={line}")
        page.keyboard.press("Enter")
        page.reload()
        assert link.get_attribute("href") == "mine:///home/me/a%20b/train.py?at=41"
        page.locator(".code button").click()
        page.wait_for_function("() => document.querySelector('.code button').textContent === 'Copied'")
        assert page.evaluate("navigator.clipboard.readText()") == "DataLoader(\n    dataset,\n    num_workers=2)"


def test_the_bar_is_as_wide_as_its_shares(browser: Browser, tmp_path: Path) -> None:
    bars = Bars("One step", "ns", (Bar("data wait", 3e6), Bar("other", 1e6)))
    with opened(browser, written(report_of(bars), tmp_path), state="view=x") as page:
        widths = page.evaluate("[...document.querySelectorAll('rect')].map(r => r.getBBox().width)")
        assert widths == pytest.approx([750, 250])
        colors = page.evaluate("[...document.querySelectorAll('rect')].map(r => getComputedStyle(r).fill)")
        keys = page.evaluate(
            "[...document.querySelectorAll('.legend i')].map(i => getComputedStyle(i).backgroundColor)"
        )
        assert colors == keys
        assert len(set(colors)) == 2


def test_tables_sort_filter_hide_and_copy_and_the_address_keeps_it(browser: Browser, tmp_path: Path) -> None:
    rows = (("b|c", 2_000_000), ("a", 1_500_000_000), ("=1+1", None), ("d", 30))
    table = Table("Names", (("name", None), ("time", "ns")), rows, meanings=("", "how long it took"))
    address = written(report_of(table), tmp_path)
    names = "[...document.querySelectorAll('tbody td:first-child')].map(cell => cell.textContent)"
    with opened(browser, address, state="view=x", permissions=["clipboard-read", "clipboard-write"]) as page:
        assert page.locator("th").nth(1).get_attribute("title") == "how long it took"
        page.locator("th button").nth(1).click()
        assert page.evaluate(names) == ["a", "b|c", "d", "=1+1"]
        page.keyboard.press("Enter")  # the heading keeps the focus
        assert page.evaluate(names) == ["d", "b|c", "a", "=1+1"]
        page.get_by_role("button", name="Markdown").click()
        page.wait_for_function(
            "() => [...document.querySelectorAll('button')].some(one => one.textContent === 'Copied')"
        )
        copied = page.evaluate("navigator.clipboard.readText()").splitlines()
        assert copied[:4] == ["| name | time |", "| --- | ---: |", "| d | 30 ns |", "| b\\|c | 2 ms |"]
        page.get_by_role("button", name="CSV").click()
        page.wait_for_function(
            "() => [...document.querySelectorAll('button')].some(one => one.textContent === 'Copied')"
        )
        page.wait_for_function("() => navigator.clipboard.readText().then(text => text.startsWith('name,'))")
        assert (
            page.evaluate("navigator.clipboard.readText()")
            == "name,time (ns)\nd,30\nb|c,2000000\na,1500000000\n'=1+1,\n"
        )
        page.locator(".filter").fill("1.5 s")
        assert page.evaluate(names) == ["a"]
        kept = page.url
    with opened(browser, address, state=kept.partition("#")[2]) as page:
        assert page.evaluate(names) == ["a"]
        assert page.locator("th").nth(1).get_attribute("aria-sort") == "ascending"


def test_keyboard_search_help_theme_and_back(browser: Browser, page_file: str) -> None:
    with opened(browser, page_file) as page:
        page.keyboard.press("/")
        page.keyboard.type("critical")
        assert page.locator(".hits a").count() > 0
        page.keyboard.press("Enter")
        page.wait_for_selector("main[data-view='critical-path']")
        page.go_back()
        page.wait_for_selector("main[data-view='overview']")
        page.keyboard.press("j")
        assert page.locator(".finding").first.evaluate("one => one.classList.contains('marked')")
        page.keyboard.press("?")
        assert page.locator("dialog").is_visible()
        assert faults(page) == []
        page.keyboard.press("Escape")
        expect(page.locator("dialog")).to_have_count(0)  # the event of closing comes later
        page.keyboard.press("t")
        page.keyboard.press("t")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert "theme=dark" in page.url
        page.keyboard.press("]")
        page.wait_for_function("() => document.querySelector('main').dataset.view !== 'overview'")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_charts_are_drawn_and_have_a_table(browser: Browser, tmp_path: Path) -> None:
    lines = Lines(
        "Memory", "time", "ns", "bytes", (Line("allocated", ((0, 5), (10, 2**31))),), limits=(Bar("capacity", 2**33),)
    )
    steps = Lines(
        "Steps", "step", None, "ns", (Line("data wait", ((0, 5), (1, 7))), Line("other", ((0, 1), (1, 2)))), True
    )
    heat = Heatmap("Ranks", "step", "rank", "ns", (0, 1), (0, 1), ((1, 2), (3, None)))
    with opened(browser, written(report_of(lines, steps, heat), tmp_path), state="view=x", scheme="dark") as page:
        painted = (
            "[...document.querySelectorAll('.chart')].map(chart => [...chart.querySelectorAll('canvas')].some(one => "
            "new Set(one.getContext('2d').getImageData(0, 0, one.width, one.height).data).size > 20))"
        )
        assert page.evaluate(painted) == [True] * 3
        for summary in page.locator(".as-table summary").all():
            summary.click()
        cells = [text.replace("\u00a0", " ") for text in page.locator("td").all_inner_texts()]
        assert cells[:4] == ["0 ns", "5 B", "10 ns", "2 GiB"]
        assert faults(page) == []


def test_a_hostile_name_runs_nothing(browser: Browser, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)><script>document.title='owned'</script>"
    lines = Lines(name, name, "ns", "ns", (Line(name, ((0, 1), (1, 2))),), limits=(Bar(name, 3),))
    place = Place(file=f"/javascript:{name}", line=1, symbol=name, text=name)
    advice = Advice(text=name, code=name)
    finding = Finding(
        title=Title("{}", (name,)), cause="model", evidence=(), gain=None, advice=(advice,), ranks=(), where=(place,)
    )
    table = Table(name, ((name, None),), ((name,),), meanings=(name,), source=name)
    blocks = (table, lines, Bars(name, "ns", (Bar(name, 1),)), FindingBlock(name, finding))
    with opened(browser, written(report_of(*blocks, name=name), tmp_path), state="view=x") as page:
        dialogs: list[str] = []
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        page.locator(".chart").hover()
        assert page.title() != "owned"
        assert page.locator("#app img, #app script").count() == 0
        assert page.locator("td").inner_text() == name
        assert dialogs == []


def test_it_prints_every_view_in_black_on_white(browser: Browser, page_file: str, report: Report) -> None:
    with opened(browser, page_file, scheme="dark") as page:
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert not page.locator("nav").is_visible()
        titles = page.locator("#paper h2").all_inner_texts()
        assert {part.title for part in report.parts[2:] if part.blocks} <= set(titles)
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.locator("#paper").count() == 0
        assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize(
    "trace",
    [
        "hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",  # NVIDIA, no steps
        "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz",  # AMD
        "local/gloo_ddp2",  # two ranks, memory, modules
    ],
)
def test_real_traces(browser: Browser, corpus: Path, tmp_path: Path, trace: str) -> None:
    file = tmp_path / "report.html"
    report = assemble(open_run([str(corpus / "traces" / trace)]))
    file.write_text(report_html(report), encoding="utf-8")
    with opened(browser, file.as_uri(), scheme="dark") as page:
        names = views(page)
        assert len(names) > 5
        heading = page.locator("h1").inner_text().replace("\u00a0", " ")
        assert heading == sentence(report.verdict).replace("`", "")
        for name in names:
            go(page, view=name)
            assert page.evaluate("document.documentElement.scrollWidth") == WIDE
            assert page.locator("main h2, main h1").first.is_visible()
            keep(page, f"{Path(trace).name.partition('.')[0]}-{name}")
