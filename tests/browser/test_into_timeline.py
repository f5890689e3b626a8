"""From findings, tables and charts to their place in the timeline: by mouse, by keyboard, and where a file lacks it."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.render.html import report_html
from stepscope.report.assemble import assemble
from stepscope.rules.steps.periodic_stall import RULE
from stepscope.timeline import excerpt

from ..web.serving import opened as of
from ..web.serving import served
from .viewing import faults, go, opened


@pytest.fixture(scope="module")
def run() -> Run:
    """Steps of 50 ms on two ranks, in each tenth of the first a stall; a gap on its device."""
    synth = Synth()
    RULE.example(synth, False)
    for number in range(5):
        synth.step(number, 50 * number, 50 * number + 50, rank=1, forward=20, backward=25, optimizer=5)
    return synth.run()


@pytest.fixture(scope="module")
def page(browser: Browser, run: Run) -> Iterator[Page]:
    with served(of(run)) as address, opened(browser, address) as page:
        yield page


@pytest.fixture(scope="module")
def file(browser: Browser, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """With a timeline that holds a few steps only."""
    path = tmp_path_factory.mktemp("into") / "report.html"
    path.write_text(report_html(assemble(run), excerpt(run, 6)), encoding="utf-8")
    with opened(browser, path.as_uri()) as page:
        yield page


def visit(page: Page, view: str) -> None:
    page.evaluate("location.hash = ''")
    go(page, view=view)


def arrived(page: Page) -> tuple[float, float]:
    """The window that the timeline came to, in ms."""
    page.wait_for_selector("main[data-view='timeline'] .timeline[data-drawn]")
    found = re.search(r"from=(\d+)&to=(\d+)", page.url)
    assert found
    return int(found[1]) / MS, int(found[2]) / MS


def pressed(control: Locator) -> None:
    control.focus()
    control.press("Enter")


def unfold(page: Page) -> None:
    """Show all evidence."""
    page.evaluate("document.querySelectorAll('.all-evidence').forEach(one => (one.open = true))")


def test_evidence_leads_to_the_step_in_which_it_is_seen(page: Page) -> None:
    visit(page, "overview")
    unfold(page)
    control = page.locator(".evidence .when").first
    expect(control).to_have_text("step 29")
    control.click()
    assert arrived(page) == (29 * 50 + 2 * 200, 30 * 50 + 3 * 200)
    expect(page.locator(".timeline .asked")).to_contain_text("Saving a checkpoint takes 200 ms")
    page.go_back()
    expect(page.locator("main")).to_have_attribute("data-view", "overview")
    assert faults(page) == []


def test_a_bar_and_the_form_beneath_it_lead_to_the_step(page: Page) -> None:
    visit(page, "step-times")
    chart = page.locator(".chart").first
    area = chart.bounding_box()
    assert area
    page.mouse.click(area["x"] + area["width"] - 24, area["y"] + 100)  # the last bar
    assert arrived(page) == (43 * 50 + 4 * 200, 44 * 50 + 4 * 200)
    visit(page, "step-times")
    page.get_by_label("step", exact=True).fill("9")
    page.get_by_label("step", exact=True).press("Enter")
    assert arrived(page) == (450, 700)


def test_a_square_of_ranks_and_steps_leads_to_the_step_of_the_rank(page: Page) -> None:
    visit(page, "rank-steps")
    page.get_by_label("rank", exact=True).select_option("1")
    page.get_by_label("step", exact=True).fill("3")
    pressed(page.locator(".to-step button"))
    assert arrived(page) == (150, 200)


def test_a_row_leads_to_its_step(page: Page, run: Run) -> None:
    visit(page, "tables")
    go(page, view="tables", table="steps")
    pressed(page.get_by_role("button", name="step 2: in the timeline").first)
    assert arrived(page) == (100, 150)


def test_a_row_with_a_start_and_an_end_leads_there(browser: Browser) -> None:
    synth = Synth().host("aten::mm", "operator", 1000, 1010).kernel(1020, 1030, "gemm").kernel(1060, 1070, "gemm")
    with served(of(synth.run())) as address, opened(browser, address, state="view=tables&table=device") as page:
        control = page.locator(".tabulator-row .when").nth(1)
        expect(control).to_have_text("40 ms")
        control.click()
        assert arrived(page) == (60, 70)


def test_a_file_leads_where_it_can_and_names_the_command_elsewhere(file: Page, run: Run) -> None:
    unfold(file)
    file.locator(".evidence .when").first.click()
    dialog = file.locator("dialog")
    expect(dialog).to_contain_text("stepscope view synthetic")
    assert faults(file) == []
    file.keyboard.press("Escape")
    start, end = (moment / MS for moment in excerpt(run, 6)["window"])
    assert (start, end) == (0, 150)
    assert led(file, 1)
    assert not led(file, 30)


def led(page: Page, number: int) -> bool:
    visit(page, "step-times")
    page.get_by_label("step", exact=True).fill(str(number))
    page.locator(".to-step button").click()
    page.wait_for_selector("dialog, main[data-view='timeline']")
    if page.locator("dialog").count():
        page.keyboard.press("Escape")
        return False
    return True


def test_a_start_of_the_recorder_leads_to_its_place_on_the_clock_of_the_trace(browser: Browser) -> None:
    synth = Synth().host("aten::mm", "operator", 1000, 1100)
    synth.add("loaders", loader=0, train=True, dataset="data.Pictures").span("fetch", 0, 1, 20, 45)
    run = synth.add("clock_readings", source="start", time=0, offset=1000 * MS, error=10).run()
    with served(of(run)) as address:
        page = browser.new_page()
        page.goto(f"{address}#view=tables&table=loader_spans")
        pressed(page.locator(".tabulator-row .when").first)
        assert arrived(page) == (20, 45)
        page.close()


def test_a_moment_leads_to_the_step_around_it(browser: Browser) -> None:
    synth = Synth().step(0, 0, 100, clock="kineto").step(1, 100, 200, clock="kineto")
    for time, total in ((10, 512), (150, 1024)):
        synth.add("memory", time=time * MS, device_type=1, device=0, bytes=512, total_allocated=total)
    with served(of(synth.kernel(5, 8).run())) as address:
        page = browser.new_page()
        page.goto(f"{address}#view=tables&table=memory")
        pressed(page.locator(".tabulator-row .when").nth(1))
        assert arrived(page) == (100, 200)
        page.goto(f"{address}#view=memory")
        chart = page.locator(".chart.leads canvas").first
        area = chart.bounding_box()
        assert area
        page.mouse.click(area["x"] + area["width"] * 0.5, area["y"] + area["height"] * 0.5)
        assert arrived(page) == (0, 100)  # the middle, 80 ms: between the two points
        page.close()
