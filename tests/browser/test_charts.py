"""Charts of the page: the roofline, limits far from the curves, bars in cells of tables."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from stepscope.core.report import Bar, Line, Lines, Roof, Roofline, RooflinePoint, Table

from .test_report_page import report_of, written
from .viewing import Scheme, faults, opened

GIB = 2**30
ROOFLINE = Roofline(
    "Roofline of A", 2e12, (Roof("bfloat16", 3e14), Roof("vector", 2e13)),
    (RooflinePoint("GEMM", 100.0, 1e14, 5_000_000), RooflinePoint("normalization", 0.5, 4e11, 1_000_000)),
)  # fmt: skip


def memory(capacity: float) -> Lines:
    points = tuple((at * 1e6, 3.0 * GIB + at) for at in range(5))
    return Lines("Memory", "time", "ns", "bytes", (Line("allocated", points),), limits=(Bar("capacity", capacity),))


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_a_roofline_is_a_chart_with_its_kinds(browser: Browser, tmp_path: Path, scheme: Scheme, width: int) -> None:
    address = written(report_of(ROOFLINE), tmp_path)
    with opened(browser, address, scheme=scheme, width=width, state="view=x") as page:
        chart = page.locator(".chart.roofline")
        assert chart.get_attribute("aria-label") == "Roofline of A. GEMM: 100 TFLOP/s; normalization: 400 GFLOP/s"
        expect(chart.locator("canvas")).to_be_visible()
        page.get_by_text("As a table").click()
        assert page.locator("tbody tr").first.inner_text().split("\t")[:2] == ["GEMM", "100"]
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert faults(page) == []


def test_a_capacity_far_above_is_told_and_not_drawn(browser: Browser, tmp_path: Path) -> None:
    told = "figure > p.quiet"
    with opened(browser, written(report_of(memory(80 * GIB)), tmp_path), state="view=x") as page:
        expect(page.locator(told)).to_have_text("capacity 80 GiB: peak 3.8 %")
    with opened(browser, written(report_of(memory(4 * GIB)), tmp_path), state="view=x") as page:
        expect(page.locator(told)).to_have_count(0)


def test_times_and_shares_have_bars_in_their_cells(browser: Browser, tmp_path: Path) -> None:
    rows = (("a", 8_000_000, 0.5, 3), ("b", 2_000_000, 0.25, 1), ("c", None, 0.0, 2))
    table = Table("Names", (("name", None), ("total", "ns"), ("share", "ratio"), ("calls", "count")), rows)
    with opened(browser, written(report_of(table), tmp_path), state="view=x") as page:
        full = "[...document.querySelectorAll('tbody tr')].map(row => [...row.cells].map(cell => "
        full += "cell.querySelector('.cell-bar')?.style.getPropertyValue('--full') ?? ''))"
        assert page.evaluate(full) == [["", "1", "0.5", ""], ["", "0.25", "0.25", ""], ["", "", "", ""]]
        assert page.locator("tbody td").nth(1).inner_text().replace("\xa0", " ") == "8 ms"
        assert faults(page) == []
