"""Perfetto from the page: served from the same place, with exact times, and what it drops is told."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, expect

from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.render.html import report_html
from stepscope.report.assemble import assemble
from stepscope.timeline import excerpt
from stepscope.web.perfetto import HOW, interface
from stepscope.web.routes import perfetto as routes

from ..web.serving import opened as of
from ..web.serving import served
from .test_perfetto import PATIENCE, QUERY
from .viewing import faults

WHOLE = "Open the whole run in Perfetto"
HARMLESS = (
    "navigate-to",
    "Content Security Policy",
    "is_internal_user",
    "live_reload",
    "127.0.0.1:9001",
    "error Event",
    "document not ready yet",
)
"""What Perfetto says of itself: of directives that browsers have no more, of what the policy refuses it, and of pings
that come before it is ready, where a machine is busy."""


@pytest.fixture(scope="module")
def run() -> Run:
    """Times far from zero, of spans that nest, that touch, and that cross on one thread."""
    synth, epoch = Synth(), 1_700_000_000_000
    for step in range(4):
        at = epoch + 100 * step
        synth.step(step, at, at + 100, clock="kineto")
        synth.host("aten::mm", "operator", at + 10, at + 40, input_dims="[[64, 64]]")
        synth.host("cudaLaunchKernel", "runtime", at + 12, at + 14, correlation=step + 1)
        synth.host("crossing", "operator", at + 30, at + 60)
        synth.kernel(at + 20, at + 80, "gemm", correlation=step + 1, grid="[8, 1, 1]").kernel(at + 80, at + 90)
    return synth.run()


@pytest.fixture(scope="module")
def address(run: Run) -> Iterator[str]:
    with served(of(run)) as address:
        yield address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    page = context.new_page()
    complaints: list[str] = []
    left: list[str] = []
    page.on("console", lambda message: complaints.append(f"{message.type} {message.text} {message.location['url']}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfinished", lambda request: left.append(request.url))
    yield page
    errors = [text for text in complaints if not text.startswith(("log", "info", "debug", "warning"))]
    assert [text for text in errors if not any(word in text for word in HARMLESS)] == []
    assert [url for url in left if not url.startswith((address, "data:", "blob:"))] == []
    context.close()


def visit(page: Page, address: str, words: str = "") -> None:
    page.goto(f"{address}#view=timeline{words}")
    page.wait_for_selector(".timeline[data-drawn]")


def status(page: Page, text: str) -> None:
    expect(page.locator(".perfetto [role=status]")).to_contain_text(text, timeout=PATIENCE)


@pytest.mark.slow
def test_perfetto_draws_all_spans_of_the_run(page: Page, address: str) -> None:
    visit(page, address)
    page.get_by_role("button", name=WHOLE).click()
    status(page, "Perfetto dropped none of the ")
    (frame,) = (frame for frame in page.frames if "/perfetto/" in frame.url)
    counted = "select count(*), min(ts), max(ts + dur) from slice where category in ('operator', 'compute', 'step')"
    ((spans, first, last),) = frame.evaluate(QUERY.replace("window.app", "self.app"), counted)
    told = page.locator(".perfetto [role=status]").inner_text()
    assert spans >= 4 * 5
    assert last - first == 400_000_000
    assert "spans" in told
    assert faults(page.main_frame.page, "button-name", "frame-title", "color-contrast") == []
    page.get_by_role("button", name="Close Perfetto").click()
    expect(page.locator("iframe")).to_have_count(0)


@pytest.mark.slow
def test_perfetto_opens_a_run_beside_a_comparison(browser: Browser, run: Run) -> None:
    page = browser.new_page()
    beside = {"a": of(Synth().step(0, 0, 100).run()), "b": of(run)}
    with served(replace(of(run), beside=beside)) as address:
        visit(page, address, "&run=b")
        page.get_by_role("button", name=WHOLE).click()
        status(page, "Perfetto dropped none of the ")
    page.close()


@pytest.mark.slow
def test_what_perfetto_drops_is_told(page: Page, address: str) -> None:
    crossing = [{"ph": "X", "pid": 1, "tid": 1, "name": "a", "ts": 10 * k, "dur": 15} for k in range(4)]
    page.route("**/api/perfetto/trace*", lambda route: route.fulfill(body=json.dumps({"traceEvents": crossing})))
    visit(page, address, "&from=0&to=200ms")
    page.get_by_role("button", name="Open this window in Perfetto").click()
    status(page, "Perfetto dropped 2 overlapping events of the trace")


def test_without_it_the_button_says_how_to_install_it(
    page: Page, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "interface", lambda: None)
    visit(page, address)
    page.get_by_role("button", name=WHOLE).click()
    status(page, HOW)


def test_too_many_spans_are_not_handed_over(page: Page, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MOST_SPANS", 3)
    visit(page, address)
    page.get_by_role("button", name=WHOLE).click()
    status(page, "zoom in until it is at most 3")


def test_a_file_names_the_command_instead(browser: Browser, run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(report_html(assemble(run), excerpt(run)), encoding="utf-8")
    page = browser.new_page()
    page.goto(f"{file.as_uri()}#view=timeline")
    page.wait_for_selector(".timeline[data-drawn]")
    expect(page.get_by_text("stepscope export synthetic")).to_be_visible()
    assert page.get_by_role("button", name=WHOLE).count() == 0
    page.close()


def test_the_policy_allows_no_other_place_and_no_text_as_script() -> None:
    found = interface()
    assert found
    words = {part.split()[0]: part.split()[1:] for part in found.policy.split("; ")}
    assert words["default-src"] == ["'none'"]
    assert words["frame-ancestors"] == ["'self'"]
    assert "'unsafe-inline'" not in words["script-src"]
    assert "'unsafe-eval'" not in words["script-src"]
    assert not any("http" in word for sources in words.values() for word in sources)
