"""`stepscope.open(PATH)` in a notebook: the page in a frame that reaches nothing outside of it."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import stepscope
from stepscope.render import app_page

from ..cli.test_opening import write


def test_a_cell_shows_the_page(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    write(tmp_path / "run", 2)
    shown = stepscope.open(tmp_path / "run", height=700)
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><title>notebook</title><div>{shown._repr_html_()}</div>", encoding="utf-8")
    context = browser.new_context(viewport={"width": 1000, "height": 900}, offline=True, locale="en-GB")
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(notebook.as_uri())
    frame = page.frame_locator("iframe")
    expect(frame.locator("h1")).to_be_visible()
    box = page.locator("iframe").bounding_box()
    assert box and box["height"] >= 700
    frame.locator("nav a").nth(1).click()
    expect(frame.locator("main")).not_to_have_attribute("data-view", "overview")
    frame.locator("nav a").first.click()
    expect(frame.locator("main")).to_have_attribute("data-view", "overview")
    frame.locator("body").press("t")
    expect(frame.locator("html")).to_have_attribute("data-theme", "light")
    frame.locator("select[aria-label=Language]").select_option("zh")
    expect(frame.locator("html")).to_have_attribute("lang", "zh-CN")
    assert complaints == []
    context.close()


def test_without_a_built_page_the_cell_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    write(tmp_path / "run", 2)
    shown = stepscope.open([str(tmp_path / "run")])
    assert str(tmp_path) in repr(shown)
    monkeypatch.setattr(app_page, "files", lambda _: tmp_path)
    told = shown._repr_html_()
    assert told.startswith("<pre>")
    assert "built without npm" in told
    assert "install Node.js" in told
