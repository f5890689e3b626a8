"""What differs between two runs, in a real browser: the numbers are those of the JSON, in every theme and language."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from stepscope.compare.comparison import Comparison, compare
from stepscope.compare.document import document_of
from stepscope.compare.page import page_of
from stepscope.compare.run_summary import measure
from stepscope.core.synth import Synth
from stepscope.render.format import quantity, signed
from stepscope.render.html import page_html
from stepscope.render.json import page_document
from stepscope.web import Opened

from ..compare.training import looped, traced
from ..web.serving import opened as what
from ..web.serving import served
from .viewing import WIDE, Scheme, faults, go, opened, views

TELEPHONE = 400
CELLS = (
    "table => [...document.querySelectorAll(table + ' tbody tr')].map(row => [...row.querySelectorAll('td')]"
    ".map(cell => (cell.querySelector('.amount') ?? cell.lastElementChild ?? cell).innerText.replace(/\\u00a0/g, ' ')))"
)


def compared() -> Comparison:
    return compare(measure(looped(41).run()), measure(looped(33, wait=2, seed=2).run()))


def calls() -> Comparison:
    return compare(measure(traced(time=20).run()), measure(traced(time=10, extra=True).run()))


def written(comparison: Comparison, folder: Path) -> str:
    file = folder / "comparison.html"
    file.write_text(page_html(page_of(comparison)), encoding="utf-8")
    return file.as_uri()


def rows(page: Page, table: str = "main table") -> list[list[str]]:
    found: list[list[str]] = page.evaluate(CELLS, table)
    return found


@pytest.mark.parametrize(("scheme", "lang", "word"), [("light", "en", "faster"), ("dark", "zh", "更快")])
def test_numbers_are_those_of_the_document(
    browser: Browser, tmp_path: Path, scheme: Scheme, lang: str, word: str
) -> None:
    comparison = compared()
    document = document_of(comparison)
    phases, verdict = document["phases"], document["verdict"]
    assert isinstance(phases, dict) and isinstance(verdict, dict)
    expected = sorted((row for row in phases["rows"] if row["a_ns"]), key=lambda row: -abs(row["difference_ns"]))
    with opened(browser, written(comparison, tmp_path), scheme=scheme, state=f"lang={lang}") as page:
        shown = rows(page)
        assert [row[1:4] for row in shown[:-1]] == [
            [quantity(row["a_ns"], "ns"), quantity(row["b_ns"], "ns"), signed(row["difference_ns"], "ns")]
            for row in expected
        ]
        assert shown[-1][3] == signed(phases["b_ns"] - phases["a_ns"], "ns")
        assert page.locator(".way").first.inner_text() == word
        speed = verdict["speed"]
        ratio = page.locator(".interval .ratio").inner_text()
        assert ratio.startswith(f"{quantity(speed['estimate'], None)}×")
        assert f"{quantity(speed['low'], None)}–{quantity(speed['high'], None)}" in ratio
        above = {"en": "A difference: the whole interval is above 1", "zh": "有差异：整个区间大于 1"}[lang]
        assert page.locator(".interval .meaning").inner_text().startswith(above)
        assert page.locator(".interval .ends.faster").count() == 3
        assert faults(page) == []
        page.set_viewport_size({"width": TELEPHONE, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == TELEPHONE


def test_faster_is_blue_to_the_left_and_slower_orange_to_the_right(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, written(compared(), tmp_path)) as page:
        bars = page.evaluate(
            "[...document.querySelectorAll('main td .change')].map(one => { const bar = one.querySelector('rect');"
            "return [one.querySelector('.amount').textContent[0], one.querySelector('.way').textContent,"
            "bar.getAttribute('class'), +bar.getAttribute('x') + +bar.getAttribute('width'), +bar.getAttribute('x'),"
            "getComputedStyle(bar).fill]; })"
        )
        assert {bar[0] for bar in bars} == {"+", "−"}
        for sign, way, kind, end, start, color in bars:
            assert way == kind == ("faster" if sign == "−" else "slower")
            assert end == 100 if sign == "−" else start == 100
            assert color == ("rgb(0, 114, 178)" if sign == "−" else "rgb(194, 87, 0)")


@pytest.mark.parametrize(("scheme", "lang"), [("dark", "en"), ("light", "zh")])
def test_the_tree_unfolds_and_its_numbers_add_up(browser: Browser, tmp_path: Path, scheme: Scheme, lang: str) -> None:
    comparison = calls()
    changes = comparison.trees["device"]
    address = written(comparison, tmp_path)
    with opened(browser, address, scheme=scheme, state=f"view=calls-on-the-device&lang={lang}") as page:
        tree = page.locator(".tree tbody")
        page.locator(".tree .tools button").last.click()  # fold up
        assert tree.locator("tr").count() == 1
        (top,) = rows(page, ".tree")
        assert top[1:5] == [
            signed(changes.b - changes.a, "ns"), "0 ns", quantity(changes.a, "ns"), quantity(changes.b, "ns"),
        ]  # fmt: skip
        tree.locator("tr").first.focus()
        page.keyboard.press("ArrowRight")
        assert tree.locator("tr").first.get_attribute("aria-expanded") == "true"
        shown = {row[0]: row[1] for row in rows(page, ".tree")[1:]}
        assert shown == {"aten::mm": "−10 ms", "aten::relu": "+5 ms"}
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.getAttribute('aria-level')") == "2"
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Enter")
        assert tree.locator("tr").count() == 1
        tree.locator("tr").first.click()
        assert tree.locator("tr").count() == 3
        assert faults(page) == []


def test_every_view_of_a_comparison_is_without_faults_and_prints(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, written(calls(), tmp_path), scheme="dark") as page:
        for name in views(page):
            go(page, view=name)
            assert page.evaluate("document.documentElement.scrollWidth") == WIDE, name
            assert faults(page) == [], name
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.locator("#paper .change").count() > 5
        assert page.locator("#paper .tree tr").count() > 2


def test_long_lists_have_all_rows_with_their_bars(browser: Browser, tmp_path: Path) -> None:
    def many(time: float) -> Synth:
        synth = Synth().host("ProfilerStep#0", "annotation", 0, 1000)
        for number in range(300):
            synth.host(f"aten::op{number}x", "operator", 3 * number, 3 * number + time + number / 1000)
        return synth

    comparison = compare(measure(many(1).run()), measure(many(2).run()))
    with opened(browser, written(comparison, tmp_path), state="view=operators-on-the-host") as page:
        page.wait_for_selector(".tabulator-row .change")
        assert page.locator(".count").inner_text().startswith("300 ")
        assert page.locator(".tabulator-row .amount").first.inner_text().replace("\u00a0", " ") == "+1 ms"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    a, b = looped(41).run(), looped(33, wait=2, seed=2).run()
    document = page_document(page_of(compare(measure(a), measure(b))))
    beside = {
        name: Opened(run=one.run, document=one.document, path=f"/runs/{name}")
        for name, one in (("a", what(a)), ("b", what(b)))
    }
    with served(Opened(run=lambda: a, document=lambda: document, beside=beside)) as address:
        yield address


def test_a_switch_leads_from_the_comparison_to_both_runs_and_back(browser: Browser, address: str) -> None:
    with opened(browser, address, state="lang=zh") as page:
        assert page.locator(".switch a").all_inner_texts() == ["比较", "A", "B"]
        assert page.locator(".switch [aria-current]").inner_text() == "比较"
        assert "tables" not in views(page)
        page.locator(".switch a", has_text="B").click()
        page.wait_for_selector(".checks")
        assert "run=b" in page.url and "lang=zh" in page.url
        assert page.locator(".switch [aria-current]").inner_text() == "B"
        assert page.locator(".switch a").nth(1).get_attribute("title") == "/runs/a"
        assert "tables" in views(page)
        assert faults(page) == []
        go(page, view="step-times")
        page.locator(".switch a", has_text="A").click()
        page.wait_for_selector(".switch a:nth-child(2)[aria-current]")
        page.wait_for_selector("main[data-view='step-times']")
        assert "run=a" in page.url
        page.go_back()
        page.wait_for_selector(".switch a:nth-child(3)[aria-current]")


def test_an_address_opens_a_table_of_one_of_the_runs(browser: Browser, address: str) -> None:
    with opened(browser, address, state="run=a&view=tables&table=steps", width=TELEPHONE) as page:
        page.wait_for_selector(".tabulator-row, main td")
        assert page.locator(".switch [aria-current]").inner_text() == "A"
        assert page.evaluate("document.documentElement.scrollWidth") == TELEPHONE
