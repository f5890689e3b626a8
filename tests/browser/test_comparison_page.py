"""The page of a comparison in a real browser: two bars of one scale, nothing wider than a telephone."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from stepscope.compare.comparison import compare
from stepscope.compare.page import page_of
from stepscope.compare.run_summary import measure
from stepscope.core.synth import Synth
from stepscope.render.html import page_html

from .viewing import faults, go, opened, views

WIDE, TELEPHONE = 1280, 400


def run(step: int, wait: int) -> Synth:
    synth = Synth()
    for number in range(30):
        synth.step(number, step * number, step * (number + 1), data_wait=wait, forward=10, backward=10)
    return synth


def test_two_bars_stand_above_each_other_on_one_scale(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "comparison.html"
    comparison = compare(measure(run(40, 20).run()), measure(run(30, 10).run()))
    file.write_text(page_html(page_of(comparison)), encoding="utf-8")
    with opened(browser, file.as_uri(), width=WIDE) as page:
        assert page.locator("h1").inner_text().startswith("B is 1.33× as fast as A")
        assert page.evaluate("document.documentElement.scrollWidth") == WIDE
        ends = page.evaluate(
            "[...document.querySelectorAll('svg.bar')].map(bar => Math.max(...[...bar.querySelectorAll('rect')]"
            ".map(part => part.getBBox().x + part.getBBox().width)))"
        )
        assert ends[1] == pytest.approx(0.75 * ends[0], rel=0.01)
        colors = page.evaluate(
            "[...document.querySelectorAll('svg.bar')].map(bar => [...bar.querySelectorAll('rect')]"
            ".map(part => getComputedStyle(part).fill).join())"
        )
        assert colors[0] == colors[1]
        assert faults(page) == []
        page.set_viewport_size({"width": TELEPHONE, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == TELEPHONE


def traced(times: tuple[float, ...]) -> Synth:
    """A traced step of calls one after the other, each with a call and a kernel inside."""
    synth, at = Synth().host("ProfilerStep#0", "annotation", 0, 100), 0.0
    for number, time in enumerate(times):
        synth.host(f"aten::a_layer_with_a_name_{number}x", "operator", at, at + time)
        synth.host("aten::convolution_overrideable", "operator", at, at + time)
        synth.host("cudaLaunchKernel", "runtime", at, at + time / 2, correlation=number + 1)
        synth.kernel(at + time, at + 2 * time, f"kernel{number}", correlation=number + 1)
        at += 3 * time
    return synth


def test_a_telephone_shows_every_table_whole(browser: Browser, tmp_path: Path) -> None:
    """Names over figures; nothing has to be moved sideways."""
    file = tmp_path / "comparison.html"
    comparison = compare(measure(traced((1, 2, 3)).run()), measure(traced((5, 2, 9, 4)).run()))
    file.write_text(page_html(page_of(comparison)), encoding="utf-8")
    wider = "[...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth).length"
    with opened(browser, file.as_uri(), width=TELEPHONE) as page:
        stacked = 0
        for name in views(page):
            go(page, view=name)
            stacked += page.locator(".stacks").count()
            assert page.evaluate(wider) == 0, name
        assert stacked >= 3
