"""The served page in a real browser: the same app, with every table behind it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import NoReturn

import polars as pl
import pytest
from playwright.sync_api import Browser

from stepscope.analyses.steps.steps import steps
from stepscope.core.errors import BadInput
from stepscope.core.run import Run
from stepscope.core.schema import empty
from stepscope.render.format import cell
from stepscope.render.json import report_document
from stepscope.report.assemble import first_view
from stepscope.web import Opened
from stepscope.web.routes.tables import listed

from ..export.recorded import recorded
from ..report.sections.test_sections import full
from ..web.serving import opened as what
from ..web.serving import served
from .viewing import WIDE, faults, go, opened, views

MANY = 50_000


@pytest.fixture(scope="module")
def run() -> Run:
    """A run that has everything, and many samples."""
    plain = full()
    samples = pl.DataFrame({
        "rank": [0] * MANY, "time": range(MANY), "name": [f"kernel-{number % 977}x" for number in range(MANY)],
        "value": [number * 7919 % MANY / 8 for number in range(MANY)],
    })  # fmt: skip
    counters = pl.concat([empty("counters"), samples], how="diagonal_relaxed")
    return Run({**plain.tables, "counters": counters}, path=plain.path)


@pytest.fixture(scope="module")
def address(run: Run) -> Iterator[str]:
    with served(what(run)) as address:
        yield address


def test_all_tables_are_listed_searched_and_opened(browser: Browser, address: str, run: Run) -> None:
    with opened(browser, address, state="view=tables", scheme="dark") as page:
        page.wait_for_selector(".listing li")
        assert page.locator(".listing li").count() == len(listed())
        page.locator(".wide-filter").fill("training steps host")
        assert page.locator(".listing a").first.inner_text() == "steps"
        assert faults(page) == []
        page.locator(".listing a").first.click()
        page.wait_for_selector(".tabulator-row")
        expected = steps(run)
        durations = [cell(value, "ns") for value in expected["duration"]]
        shown = page.evaluate(
            "[...document.querySelectorAll('.tabulator-row')]"
            ".map(row => row.querySelectorAll('.tabulator-cell')[4].textContent)"
        )
        assert shown == durations[: len(shown)]
        assert len(shown) > 5
        assert faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == WIDE
        page.go_back()
        page.wait_for_selector(".listing li")


def test_fifty_thousand_rows_sort_and_filter_with_few_on_the_page(browser: Browser, address: str) -> None:
    with opened(browser, address, state="view=tables&table=counters") as page:
        page.wait_for_selector(".tabulator-row")
        values = (
            "[...document.querySelectorAll('.tabulator-row')]"
            ".map(row => row.querySelectorAll('.tabulator-cell')[at].textContent)"
        )
        heads = page.locator(".tabulator-col-title").all_inner_texts()
        at = heads.index("value")
        page.locator(".tabulator-col", has_text="value").click()
        page.wait_for_function(f"at => {values}[0] === '6,250'", arg=at)
        assert page.locator(".tabulator-row").count() < 200
        page.locator(".filter").fill("kernel-976x")
        page.wait_for_function("() => document.querySelector('.count').textContent.startsWith('51 ')")
        names = page.evaluate(f"at => {values}", heads.index("name"))
        assert set(names) == {"kernel-976x"}
        assert "s=-value" in page.url and "q=kernel-976x" in page.url


def test_evidence_leads_to_its_table(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.locator(".all-evidence summary").first.click()
        link = page.locator(".evidence a.source").first
        source = link.inner_text()
        link.click()
        page.wait_for_function("() => document.querySelector('main').dataset.view !== 'overview'")
        assert f"table={source}" in page.url


def test_a_run_in_progress_is_followed_until_it_ends(browser: Browser, run: Run) -> None:
    first = what(run).document()
    news = [("running", 1)]
    newer = {**first, "verdict": {**first["verdict"], "sentence": "Balanced: it has changed."}}  # type: ignore[dict-item]
    live = Opened(run=lambda: run, document=lambda: first if news[-1][1] == 1 else newer, news=lambda: news[-1])
    with served(live) as address, opened(browser, address) as page:
        page.wait_for_selector(".live.on")
        go(page, view="step-times")
        page.wait_for_selector(".live.on")
        go(page, view="overview")
        news.append(("ended", 2))
        page.wait_for_selector(".live.off")
        page.wait_for_function("() => document.querySelector('h1').textContent === 'Balanced: it has changed.'")
        assert page.locator(".live").inner_text() == "the job has ended"


DRAWN = "main h1, main .finding .title, main .finding .row, main .actions > *, nav a"
PLACES = f"""() => [...document.querySelectorAll('{DRAWN}')]
    .map(one => [one.textContent, one.getBoundingClientRect().x, one.getBoundingClientRect().y])"""
SHIFTS = """new PerformanceObserver(list => (window.shifts ??= []).push(...list.getEntries().map(one => one.value)))
    .observe({type: 'layout-shift', buffered: true})"""


def test_the_first_screen_is_drawn_before_the_rest_which_moves_nothing(browser: Browser, run: Run) -> None:
    """The rest comes when the page has asked for it, and the test has looked."""
    looked = Event()
    whole = what(run)

    def document() -> Mapping[str, object]:
        assert looked.wait(60)
        return whole.document()

    first = report_document(first_view(run))
    page = browser.new_page()
    page.add_init_script(SHIFTS)
    with served(Opened(run=whole.run, document=document, first=lambda: (first, False))) as address:
        page.goto(address)
        page.wait_for_selector(".finding")
        before = page.evaluate(PLACES)
        assert page.locator("html[data-ready]").count() == 0
        assert views(page) == ["overview"]
        looked.set()
        page.wait_for_selector("html[data-ready]")
        assert {"overview", "step-times", "operators", "tables"} <= set(views(page))
        after = page.evaluate(PLACES)
        assert [place for place in before if place not in after] == []
        assert page.locator("footer.checks").count() == 1
        assert not page.evaluate("window.shifts")
    page.close()


def test_a_run_that_cannot_be_read_is_said(browser: Browser) -> None:
    def fails() -> NoReturn:
        raise BadInput("trace.json", "is no trace", next_step="Record one.")

    page = browser.new_page()
    with served(Opened(run=fails, document=fails, first=fails)) as address:
        page.goto(address)
        assert page.locator(".failure").inner_text() == "trace.json: is no trace\nRecord one."
        assert page.locator(".reading").count() == 0
    page.close()


@pytest.mark.slow
def test_every_view_of_a_recorded_job(browser: Browser, tmp_path: Path) -> None:
    from stepscope.storage import open_run

    folder = recorded(tmp_path / "run", "fork", trace=True)
    with served(what(open_run([str(folder)]))) as address, opened(browser, address) as page:
        names = views(page)
        assert {"overview", "step-times", "operators", "tables"} <= set(names)
        for name in names:
            go(page, view=name)
            assert page.evaluate("document.documentElement.scrollWidth") == WIDE
            assert page.locator("main h2, main h1").first.is_visible()
