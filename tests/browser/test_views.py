"""Views that lead on: workers as lanes, modules down to kernels, memory of a range, ranks; served and as a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.render.html import report_html
from stepscope.report.assemble import assemble
from stepscope.storage import open_run

from ..export.recorded import recorded
from ..report.sections.input_pipeline.test_input_pipeline_section import two_workers_in_step
from ..report.sections.test_sections import facts_of, steps_of, trace_of
from ..web.serving import opened as what
from ..web.serving import served
from .viewing import Scheme, faults, go, opened, views

NARROW = 390
TRACES = ("local/gloo_ddp2", "kineto/resnet50_num_workers_0")


def everything() -> Run:
    """A run with workers of a loader, modules, kernels and memory."""
    synth: Synth = two_workers_in_step()
    trace = Synth()
    steps_of(trace, 0)
    trace_of(trace, device=True)
    facts_of(trace)
    for number in range(4):
        trace.add(
            "memory", thread="1", time=round((3062 + 70 * number) * MS), device_type=1, device=0, bytes=2**20,
            address=number + 2, total_allocated=number * 2**20,
        )  # fmt: skip
    loading = synth.run()
    return Run({**loading.tables, **trace.run().tables, "loader_spans": loading.tables["loader_spans"]}, "a run")


@pytest.fixture(scope="module")
def run() -> Run:
    return everything()


@pytest.fixture(scope="module")
def address(run: Run) -> Iterator[str]:
    with served(what(run)) as address:
        yield address


@pytest.fixture(scope="module")
def file(run: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    page = tmp_path_factory.mktemp("views") / "report.html"
    page.write_text(report_html(assemble(run)), encoding="utf-8")
    return page.as_uri()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", NARROW)])
def test_workers_are_drawn_as_lanes(browser: Browser, file: str, scheme: Scheme, width: int) -> None:
    with opened(browser, file, scheme=scheme, width=width, state="view=input-pipeline") as page:
        lanes = page.locator(".lanes svg")
        assert page.locator(".lane-name").all_inner_texts() == ["worker 0", "worker 1", "training"]
        assert (lanes.nth(2).get_attribute("aria-label") or "").startswith("training: data wait 216 ms;")
        first = lanes.nth(2).locator("rect").first
        widths = [float(first.get_attribute(name) or -1) for name in ("x", "width")]
        assert widths == pytest.approx([0, 10_000 * 36 / 440], rel=0.02)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.get_by_text("As a table").first.click()
        assert page.locator(".as-table td").first.inner_text() == "worker 0"
        assert faults(page) == []


def test_modules_lead_to_operators_and_kernels_and_back(browser: Browser, address: str) -> None:
    with opened(browser, address, state="view=modules") as page:
        page.locator("main a.down").first.click()
        page.wait_for_selector(".tabulator-row")
        assert "table=module_operators" in page.url
        page.locator("main a.down", has_text="aten::addmm").first.click()
        expect(page.locator("main h2")).to_have_text("module_kernels")
        expect(page.locator(".tabulator-row").first).to_contain_text("volta_sgemm_64x64_nt")
        assert page.locator(".only code").all_inner_texts()[-1] == "operator = aten::addmm"
        assert faults(page) == []
        kept = page.url
        page.locator(".only a").last.click()
        expect(page.locator(".only code").last).not_to_contain_text("operator")
        page.go_back()
        assert page.url == kept
        page.go_back()
        expect(page.locator("main h2")).to_have_text("module_operators")
    with opened(browser, address, state=kept.partition("#")[2]) as page:
        expect(page.locator(".tabulator-row").first).to_contain_text("volta_sgemm_64x64_nt")


def test_steps_lead_to_their_modules(browser: Browser, address: str) -> None:
    with opened(browser, address, state="view=modules") as page:
        page.get_by_role("link", name="module_steps").click()
        page.wait_for_selector(".tabulator-row")
        page.locator("main a.down").first.click()
        expect(page.locator("main h2")).to_have_text("module_operators")


def test_a_file_says_which_command_shows_what_is_inside_a_module(browser: Browser, file: str) -> None:
    with opened(browser, file, state="view=modules") as page:
        page.locator("button.down").first.click()
        assert "stepscope show module_operators 'a run' --where" in page.locator("dialog code").inner_text()
        assert faults(page) == []


def drag(page: Page) -> None:
    """Over the middle half of the chart."""
    box = page.locator(".chart").first.bounding_box()
    assert box
    across = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.3, across)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, across, steps=4)
    page.mouse.up()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_range_of_memory_opens_what_its_operators_did(browser: Browser, address: str, scheme: Scheme) -> None:
    with opened(browser, address, state="view=memory", scheme=scheme) as page:
        drag(page)
        page.wait_for_selector(".range-table .table")
        assert "memory.0.r=" in page.url
        shaded = page.locator(".shade").bounding_box()
        chart = page.locator(".chart").first.bounding_box()
        assert shaded
        assert chart
        assert shaded["width"] == pytest.approx(chart["width"] * 0.5, abs=4)
        assert faults(page) == []
        page.go_back()
        expect(page.locator(".range-table")).to_be_empty()
        page.get_by_label("to, ms").fill("100000")  # by the keyboard
        page.keyboard.press("Enter")
        page.wait_for_selector(".range-table .table")


def test_a_file_says_which_command_shows_the_range(browser: Browser, file: str) -> None:
    with opened(browser, file, state="view=memory") as page:
        drag(page)
        words = page.locator(".range-table code").inner_text()
        assert words.startswith("stepscope show memory_operators 'a run' --between ")


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize(("scheme", "language"), [("light", "zh"), ("dark", "en")])
def test_every_view_of_a_trace(browser: Browser, corpus: Path, trace: str, scheme: Scheme, language: str) -> None:
    found = open_run(str(corpus / "traces" / trace))
    with served(what(found)) as address, opened(browser, address, scheme=scheme, state=f"lang={language}") as page:
        assert {"overview", "memory", "operators"} <= set(views(page))
        look_at_all(page, scheme)


@pytest.mark.slow
def test_every_view_of_a_recorded_job(browser: Browser, tmp_path: Path) -> None:
    found = open_run(str(recorded(tmp_path / "run", "fork", trace=True)))
    with served(what(found)) as address:
        for scheme, language in (("light", "en"), ("dark", "zh")):
            state = f"lang={language}"
            with opened(browser, address, scheme=scheme, state=state) as page:  # type: ignore[arg-type]
                assert "input-pipeline" in views(page)
                look_at_all(page, scheme)


def look_at_all(page: Page, scheme: str) -> None:
    """No view is wider than the page, and axe finds nothing serious; what is dark differs in its colors only."""
    width = page.evaluate("innerWidth")
    for name in views(page):
        go(page, view=name)
        assert page.evaluate("document.documentElement.scrollWidth") == width, name
        assert faults(page, *(() if scheme == "light" else ("color-contrast",))) == [], name


def test_titles_and_headings_are_chinese_and_what_nobody_translated_is_english(browser: Browser, file: str) -> None:
    with opened(browser, file, state="lang=zh&view=memory") as page:
        assert page.locator("main h2").inner_text() == "内存"
        assert "已分配峰值" in page.locator("main th").all_inner_texts()
        assert "输入流水线" in page.locator("nav a").all_inner_texts()


def test_what_nobody_translated_stays_english(browser: Browser, tmp_path: Path) -> None:
    from stepscope.core.report import Table

    from .test_report_page import report_of, written

    table = Table("Nobody has translated this", (("a new heading", None), ("calls", "count")), (("x", 1),))
    address = written(report_of(table, name="A new section"), tmp_path)
    with opened(browser, address, state="lang=zh&view=x") as page:
        assert page.locator("main h2").inner_text() == "A new section"
        assert page.locator("main th").all_inner_texts() == ["a new heading", "调用次数"]


def test_without_findings_the_next_command_is_what_to_change(browser: Browser, tmp_path: Path) -> None:
    page_file = tmp_path / "report.html"
    page_file.write_text(report_html(assemble(Synth().host("aten::mm", "operator", 0, 5).run())), encoding="utf-8")
    with opened(browser, page_file.as_uri()) as page:
        shown = page.locator("main").inner_text()
        assert shown.count("stepscope run") == 1, shown
        assert page.locator("main").inner_text().count("No problem found") == 0


def test_that_nothing_was_found_is_said_once(browser: Browser, tmp_path: Path) -> None:
    synth = Synth()
    steps_of(synth, 0, wait=0)
    page_file = tmp_path / "report.html"
    page_file.write_text(report_html(assemble(synth.run())), encoding="utf-8")
    with opened(browser, page_file.as_uri()) as page:
        assert page.locator("main").inner_text().count("No cause found") == 1


def test_a_long_name_is_whole_on_a_telephone(browser: Browser, address: str) -> None:
    with opened(browser, address, width=NARROW, state="view=tables&table=module_operators") as page:
        page.wait_for_selector(".tabulator-row")
        cut = page.evaluate(
            "[...document.querySelectorAll('.tabulator-cell')].filter(one => one.scrollWidth > one.clientWidth + 1)"
            ".map(one => one.textContent)"
        )
        assert cut == []
        assert page.evaluate("document.querySelector('.grid').offsetHeight") < 800
