"""The timeline in a real browser: from a server and from a file, by mouse and by keyboard, with Python's own counts."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.render.html import report_html
from stepscope.report.assemble import assemble
from stepscope.storage import open_run
from stepscope.timeline import excerpt, find, frame, origin, sums
from stepscope.timeline.frame import SpanFrame

from ..web.serving import opened as of
from ..web.serving import served

REAL = "hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"
GUTTER = 170  # pixels left of the tracks beside the details


def synthetic() -> Run:
    """Ten steps of an operator, its launch and a kernel, and many operators below a pixel."""
    synth = Synth()
    for step in range(10):
        at = 100 * step
        synth.step(step, at, at + 100, clock="kineto")
        synth.host("aten::mm", "operator", at + 10, at + 40, input_dims="[[64, 64]]")
        synth.host("cudaLaunchKernel", "runtime", at + 12, at + 14, correlation=step + 1)
        synth.kernel(at + 20, at + 80, "gemm", correlation=step + 1, grid="[8, 1, 1]")
        for k in range(200):
            synth.host("tiny", "operator", at + 50 + k * 0.05, at + 50.02 + k * 0.05)
    return synth.run()


@pytest.fixture(scope="module")
def run() -> Run:
    return synthetic()


@pytest.fixture(scope="module")
def address(run: Run) -> Iterator[str]:
    with served(of(run)) as address:
        yield address


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    assert complaints == []
    context.close()


def opened(page: Page, address: str, words: str = "") -> None:
    page.goto(f"{address}#view=timeline{words}")
    page.wait_for_selector(".timeline[data-drawn]")


def shown(page: Page) -> tuple[int, int, int, dict[str, tuple[int, int]]]:
    """The window and its width in pixels, and for each track how many spans are drawn, and how many there are."""
    told = page.evaluate(
        "[document.querySelector('.timeline').dataset.drawn,"
        " [...document.querySelectorAll('[data-track]')].map(item => [item.dataset.track, item.textContent])]"
    )
    start, end, width = (int(number) for number in told[0].split(","))
    counts = {}
    for track, text in told[1]:
        words = text.rpartition(": ")[2].replace(",", "")
        if match := re.match(r"(\d+) of (\d+) drawn", words):
            counts[track] = int(match[1]), int(match[2])
        elif match := re.match(r"(\d+) span", words):
            counts[track] = int(match[1]), int(match[1])
    return start, end, width, counts


def counted(run: Run, start: int, end: int, width: int) -> dict[str, tuple[int, int]]:
    """The same from Python; tracks with nothing in the window are left out."""
    drawn = frame(run, (start + origin(run), end + origin(run)), width).tracks
    found = {track.id: (track.drawn, track.drawn + track.merged) for track in drawn if isinstance(track, SpanFrame)}
    return {track: counts for track, counts in found.items() if counts[1]}


def pixels(page: Page) -> int:
    """How many colors the tracks have."""
    return int(
        page.evaluate(
            "(() => { const canvas = document.querySelector('canvas.tracks'); const seen = new Set();"
            " const data = canvas.getContext('2d').getImageData(170, 0, canvas.width - 170, canvas.height).data;"
            " for (let at = 0; at < data.length; at += 4) seen.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]);"
            " return seen.size; })()"
        )
    )


def test_it_draws_what_python_counts_at_any_zoom(page: Page, address: str, run: Run) -> None:
    opened(page, address)
    start, end, width, counts = shown(page)
    assert (start, end) == (0, 1000 * MS)
    assert counts == counted(run, start, end, width)
    assert counts["host:0:1:1"][1] == 2020 > counts["host:0:1:1"][0]
    assert pixels(page) > 10
    page.locator("canvas.tracks").focus()
    for _ in range(4):
        page.keyboard.press("w")
    page.wait_for_function(  # a slow machine draws, and writes into the address, what lies between
        "most => { const at = new URLSearchParams(location.hash.slice(1));"
        " return at.has('from') && at.get('to') - at.get('from') < most; }",
        arg=300 * MS,
    )
    page.wait_for_function(
        "(() => { const data = document.querySelector('.timeline').dataset;"
        " return data.window && data.drawn.startsWith(data.window); })()"
    )
    start, end, width, counts = shown(page)
    assert 0 < end - start < 300 * MS
    assert counts == counted(run, start, end, width)
    assert f"from={start}&to={end}" in page.url


def test_an_address_opens_its_window(page: Page, address: str) -> None:
    opened(page, address, "&from=200ms&to=300ms&shown=a+finding")
    assert shown(page)[:2] == (200 * MS, 300 * MS)
    expect(page.locator(".timeline .asked")).to_have_text("a finding")


def test_a_search_goes_from_hit_to_hit(page: Page, address: str, run: Run) -> None:
    opened(page, address)
    box = page.get_by_label("Search names in the timeline")
    box.fill("gemm")
    expect(page.locator(".timeline .occurrences")).to_have_text("1 of 10")
    box.press("Enter")
    expect(page.locator(".timeline .occurrences")).to_have_text("2 of 10")
    expect(page.locator(".timeline .details h3")).to_have_text("gemm")
    expect(page.locator(".timeline .details")).to_contain_text("120.000000 ms")
    box.press("Shift+Enter")
    expect(page.locator(".timeline .occurrences")).to_have_text("1 of 10")
    box.fill("nowhere")
    expect(page.locator(".timeline .occurrences")).to_contain_text("no span has this")
    assert find(run, "gemm").total == 10


SLOW_FIRST = """
const fetched = window.fetch;
let slow = true;
window.fetch = async (url, options) => {
  const late = slow && String(url).includes("/event");
  if (late) slow = false;
  const answer = await fetched(url, options);
  if (late) await new Promise((resolve) => setTimeout(resolve, 1500));
  return answer;
};
"""


def test_the_details_are_of_what_was_chosen_last_whichever_answer_comes_last(page: Page, address: str) -> None:
    page.add_init_script(SLOW_FIRST)
    opened(page, address)
    box = page.get_by_label("Search names in the timeline")
    box.fill("gemm")
    expect(page.locator(".timeline .occurrences")).to_have_text("1 of 10")
    box.press("Enter")
    details = page.locator(".timeline .details")
    expect(details).to_contain_text("120.000000 ms")
    page.wait_for_timeout(2000)
    expect(details).to_contain_text("120.000000 ms", timeout=1)


def test_hover_click_and_arrows_tell_what_is_there(page: Page, address: str) -> None:
    opened(page, address, "&from=0&to=100ms")
    canvas = page.locator("canvas.tracks")
    area = canvas.bounding_box()
    assert area
    across = (area["width"] - GUTTER) / 100  # pixels for a ms
    stream = 26 + 34 + 34 + 8  # below the heading of the process, the steps and the critical path
    page.mouse.move(area["x"] + GUTTER + 50 * across, area["y"] + stream)
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text("gemm")
    expect(tip).to_contain_text("60 ms · kernel · 60 %")
    expect(tip).to_contain_text("grid: [8, 1, 1]")
    page.mouse.click(area["x"] + GUTTER + 50 * across, area["y"] + stream)
    details = page.locator(".timeline .details")
    expect(details.locator("h3")).to_have_text("gemm")
    expect(details).to_contain_text("launched by")
    page.keyboard.press("ArrowRight")
    expect(details).to_contain_text("120.000000 ms")
    details.get_by_role("button", name="cudaLaunchKernel").click()
    expect(details.locator("h3")).to_have_text("cudaLaunchKernel")
    canvas.focus()
    page.keyboard.press("ArrowUp")
    expect(details.locator("h3")).to_have_text("aten::mm")
    expect(page.locator("[aria-live=polite]").last).to_contain_text("aten::mm, operator, 30 ms")
    page.keyboard.press("Escape")
    expect(details).to_contain_text("Click a span")


def test_a_selection_is_summed_by_name(page: Page, address: str, run: Run) -> None:
    opened(page, address, "&from=0&to=100ms")
    expect(page.locator(".sums h3")).to_contain_text("Window: 100 ms")
    canvas = page.locator("canvas.tracks")
    area = canvas.bounding_box()
    assert area
    across = (area["width"] - GUTTER) / 100
    page.keyboard.down("Shift")
    page.mouse.move(area["x"] + GUTTER + 45 * across, area["y"] + 100)
    page.mouse.down()
    page.mouse.move(area["x"] + GUTTER + 95 * across, area["y"] + 100, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page.locator(".sums h3")).to_contain_text("Selection: 50 ms")
    rows = page.locator(".sums tbody tr").all_inner_texts()
    tiny = next(row.split("\t") for row in rows if row.startswith("tiny"))
    expected = next(row for row in sums(run, (45 * MS, 95 * MS)).rows if row.name == "tiny")
    assert tiny[1] == str(expected.count) == "200"
    assert tiny[2].strip() == "4 ms"


@pytest.mark.slow
def test_a_real_trace_is_drawn_as_python_counts_it(page: Page, corpus: Path) -> None:
    run = open_run(corpus / "traces" / REAL)
    with served(of(run)) as address:
        for words in ("", "&from=300ms&to=310ms"):
            page.goto("about:blank")
            opened(page, address, words)
            start, end, width, counts = shown(page)
            assert counts == counted(run, start, end, width)
        assert sum(count for _, count in counts.values()) > 100
        assert pixels(page) > 30


@pytest.mark.parametrize("most", [100_000, 500])
def test_a_file_holds_a_window_and_says_so(browser: Browser, tmp_path: Path, run: Run, most: int) -> None:
    told = excerpt(run, most)
    file = tmp_path / "report.html"
    file.write_text(report_html(assemble(run), told), encoding="utf-8")
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True, locale="en-GB")
    page = context.new_page()
    opened(page, file.as_uri())
    start, end, width, counts = shown(page)
    assert [start, end] == told["window"] or (told["whole"] and start == 0)
    assert counts == counted(run, start, end, width)
    assert page.locator("[data-track='busy:0:0']").text_content() == "rank 0, GPU 0: a kernel runs: 0 % – 100 %"
    notes = page.locator(".timeline .note").all_inner_texts()
    assert [note.endswith("stepscope view synthetic") for note in notes] == ([] if told["whole"] else [True])
    page.get_by_label("Search names in the timeline").fill("gemm")
    expect(page.locator(".timeline .occurrences")).to_contain_text("1 of ")
    expect(page.locator(".timeline .details")).to_contain_text("launched by")
    expect(page.locator(".timeline .details")).to_contain_text("[8, 1, 1]")
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_telephone_shows_it_without_scrolling_the_page(browser: Browser, address: str, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": 360, "height": 740})  # type: ignore[arg-type]
    page = context.new_page()
    opened(page, address)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    dark = page.evaluate(
        "document.querySelector('canvas.tracks').getContext('2d').getImageData(200, 1, 1, 1).data[0] < 80"
    )
    assert dark == (scheme == "dark")
    context.close()


def traced_in_part() -> Run:
    """Twenty steps, of which the trace holds the eleventh and twelfth; the eleventh is slower."""
    synth = Synth()
    for step in range(20):
        tags = ("traced",) if step in (10, 11) else ()
        synth.step(step, 100 * step, 100 * (step + 1), data_wait=60, forward=40, tags=tags)
    synth.host("ProfilerStep#10", "annotation", 1000, 1100).host("aten::mm", "operator", 1062, 1090)
    return synth.add("clock_readings", source="start", time=0, offset=0, error=10).run()


def test_a_typical_step_was_recorded_and_the_rest_is_hatched(browser: Browser) -> None:
    with served(of(traced_in_part())) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(address)
        page.locator(".finding .actions button", has_text="Timeline").first.click()
        page.wait_for_selector(".timeline[data-drawn]")
        assert shown(page)[0] in (1000 * MS, 1100 * MS)
        expect(page.locator(".timeline .lit")).to_have_text("Highlighted: loading, waiting ✕")
        page.locator(".timeline .lit").click()
        expect(page.locator(".timeline .lit")).to_have_count(0)
        opened(page, address, "&from=100ms&to=300ms")
        host = page.locator("[data-track^='host:']")
        expect(host).to_contain_text("not recorded here")
        page.close()


def test_threads_and_details_are_seen_on_a_small_laptop(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    opened(page, address, "&from=0&to=100ms")
    tracks, details = (page.locator(part).bounding_box() for part in (".tracks-box", ".details"))
    assert tracks and details
    assert details["x"] > tracks["x"] + tracks["width"], "beside, not below"
    assert tracks["height"] > 240 and tracks["y"] + tracks["height"] < 720
    assert details["y"] + details["height"] <= 720
    page.close()


def test_a_double_click_zooms_and_scrolling_takes_the_tip_away(page: Page, address: str) -> None:
    opened(page, address, "&from=0&to=100ms")
    area = page.locator("canvas.tracks").bounding_box()
    assert area
    across = (area["width"] - GUTTER) / 100
    stream = 26 + 34 + 34 + 8
    page.mouse.move(area["x"] + GUTTER + 50 * across, area["y"] + stream)
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text("gemm")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    expect(tip).to_be_hidden()
    page.mouse.dblclick(area["x"] + GUTTER + 50 * across, area["y"] + stream)
    page.wait_for_function(
        "length => { const at = new URLSearchParams(location.hash.slice(1));"
        " return at.get('to') - at.get('from') === length; }",
        arg=72 * MS,
    )
