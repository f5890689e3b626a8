"""The step with other settings of the loader: sliders, the curve with its range, and what a run lacks for it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from stepscope.core.run import Run
from stepscope.core.synth import Synth, build
from stepscope.models.loader_model import LoaderChange
from stepscope.render.format import quantity
from stepscope.rules.input_pipeline.few_workers import RULE
from stepscope.web.routes.predict import prediction

from ..web.serving import opened as what
from ..web.serving import served
from .viewing import Scheme, faults, keep, opened, views


@pytest.fixture(scope="module")
def run() -> Run:
    """One worker, which is too few."""
    return build(RULE.example, fixed=False)


@pytest.fixture(scope="module")
def address(run: Run) -> Iterator[str]:
    with served(what(run)) as address:
        yield address


def step(run: Run, workers: int, change: LoaderChange) -> str:
    rows = prediction(run, change)["rows"]
    return quantity(rows[workers]["step"], "ns").replace(" ", "\xa0")  # type: ignore[index]


@pytest.mark.parametrize(("scheme", "width", "language"), [("light", 1280, "en"), ("dark", 390, "zh")])
def test_sliders_move_the_predicted_step(
    browser: Browser, address: str, run: Run, scheme: Scheme, width: int, language: str
) -> None:
    with opened(browser, address, scheme=scheme, width=width, state=f"view=what-if&lang={language}") as page:
        told = page.locator(".answer b")
        expect(told).to_have_text(step(run, 1, LoaderChange()))
        workers = page.get_by_role("slider", name="num_workers")
        workers.focus()
        page.keyboard.press("ArrowRight")
        expect(told).to_have_text(step(run, 2, LoaderChange()))
        page.locator(".slider select").select_option("data.Resize")
        factor = page.get_by_role("slider").last
        factor.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        expect(told).to_have_text(step(run, 2, LoaderChange(faster=(("data.Resize", 2.0),))))
        expect(page.locator(".chart.what-if canvas")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert faults(page) == []
        keep(page, f"what-if-{scheme}-{language}")


def test_a_finding_of_the_loader_leads_there(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.locator(".finding .actions a", has_text="What if").first.click()
        page.wait_for_selector(".answer b")


def test_a_run_without_a_loader_has_no_such_view(browser: Browser) -> None:
    synth = Synth()
    for number in range(20):
        synth.step(number, 100 * number, 100 * number + 100, forward=100)
    with served(what(synth.run())) as address, opened(browser, address) as page:
        assert "what-if" not in views(page)
