"""A folder of runs as a list, in a real browser: what each is, opening one, comparing two."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from stepscope.compare.comparison import compare
from stepscope.compare.page import page_of
from stepscope.compare.run_summary import measure
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.render.json import page_document
from stepscope.render.run_list import ListedRun, run_list_document, with_changes
from stepscope.web import Opened

from ..web.serving import opened as what
from ..web.serving import served
from .viewing import Scheme, faults, keep, opened

MS = 1_000_000


def job(length: float) -> Run:
    synth = Synth().add("processes", rank=0)
    for step in range(30):
        synth.step(step, length * step, length * (step + 1), data_wait=length / 2, forward=length / 2)
    return synth.run()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    runs = [what(job(100)), what(job(80))]
    rows = with_changes(
        ListedRun(
            name=f"train-{at}", path=f"runs/train-{at}", command=("python", "train.py"), started=at * 10**18,
            step_ns=step * MS, samples_per_second=320.0, bound="Data-loading bound", share=0.5, finding="Slow",
        )
        for at, step in ((1, 100), (2, 80))
    )  # fmt: skip
    broken = ListedRun(name="cut", path="runs/cut", problem="the run is damaged")
    document = run_list_document("runs", [*rows, broken])
    beside = {
        "1": Opened(run=runs[1].run, document=runs[1].document, path="runs/train-2"),
        "2": Opened(run=runs[0].run, document=runs[0].document, path="runs/train-1"),
    }

    def compared(a: str, b: str) -> dict[str, object]:
        return page_document(page_of(compare(measure(beside[a].run()), measure(beside[b].run()))))

    with served(Opened(run=runs[0].run, document=lambda: document, beside=beside, compare=compared)) as address:
        yield address


@pytest.mark.parametrize(("scheme", "width", "language"), [("light", 1280, "en"), ("dark", 390, "zh")])
def test_runs_are_listed(browser: Browser, address: str, scheme: Scheme, width: int, language: str) -> None:
    with opened(browser, address, scheme=scheme, width=width, state=f"lang={language}") as page:
        rows = page.locator("tbody tr:not(.command)")
        expect(rows).to_have_count(3)
        expect(rows.first).to_contain_text("train-2")
        expect(rows.first).to_contain_text("−20")
        expect(rows.last).to_contain_text("the run is damaged")
        assert (page.locator(".trend").get_attribute("aria-label") or "").endswith("100 ms, 80 ms")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert faults(page) == []
        keep(page, f"runs-{scheme}-{language}")


def test_a_run_opens_and_the_list_is_one_click_away(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.locator(".runs a").first.click()
        page.wait_for_selector("main h1 .term")
        assert "run=1" in page.url
        page.locator(".switch a", has_text="Runs").click()
        page.wait_for_selector(".runs")


def test_two_runs_are_compared(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        button = page.get_by_role("button", name="Compare the two picked")
        expect(button).to_be_disabled()
        for at in (0, 1):
            page.locator(".runs input").nth(at).check()
        button.click()
        expect(page.locator(".compared")).to_contain_text("100 ms")
        expect(page.locator(".compared .next")).to_contain_text("B is 1.25×")
        assert "a=2&b=1" in page.url, "the older one is A"
        assert faults(page) == []
