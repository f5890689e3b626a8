"""The page of a comparison in a real browser: two bars of one scale, nothing wider than a telephone."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from stepscope.compare.comparison import compare
from stepscope.compare.page import page_of
from stepscope.compare.side import measure
from stepscope.core.synth import Synth
from stepscope.render.html import page_html

WIDE, TELEPHONE = 1280, 420


def run(step: int, wait: int) -> Synth:
    synth = Synth()
    for number in range(30):
        synth.step(number, step * number, step * (number + 1), data_wait=wait, forward=10, backward=10)
    return synth


@pytest.mark.parametrize("width", [WIDE, TELEPHONE])
def test_two_bars_stand_above_each_other_on_one_scale(browser: Browser, tmp_path: Path, width: int) -> None:
    file = tmp_path / "comparison.html"
    comparison = compare(measure(run(40, 20).run()), measure(run(30, 10).run()))
    file.write_text(page_html(page_of(comparison)), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(file.as_uri())
    assert complaints == []
    assert page.locator("h1").inner_text().startswith("B is 1.33× as fast as A")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    ends = page.evaluate(
        "[...document.querySelectorAll('svg')].map(bar => Math.max(...[...bar.querySelectorAll('rect')]"
        ".map(part => part.getBoundingClientRect().right)) - bar.getBoundingClientRect().left)"
    )
    assert ends[1] == pytest.approx(0.75 * ends[0], rel=0.01)
    colours = page.evaluate(
        "[...document.querySelectorAll('svg')].map(bar => [...bar.querySelectorAll('rect')]"
        ".map(part => getComputedStyle(part).fill).join())"
    )
    assert colours[0] == colours[1]
    page.close()
