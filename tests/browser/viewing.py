"""A page opened as a reader opens it, watched for everything that it must not do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page

__all__ = ["AXE", "Scheme", "close_all", "faults", "go", "keep", "opened", "views"]

Scheme = Literal["light", "dark"]
AXE = Path(__file__).parents[2] / "web-app" / "node_modules" / "axe-core" / "axe.min.js"
WIDE = 1280
PICTURES = Path(__file__).parents[2] / ".cache" / "screenshots"
_READY = "html[data-ready]"
_WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


_idle: dict[tuple[object, ...], list[Page]] = {}


@contextmanager
def opened(
    browser: Browser,
    address: str,
    *,
    scheme: Scheme = "light",
    width: int = WIDE,
    height: int = 800,
    state: str = "",
    **more: Any,
) -> Iterator[Page]:
    """A page of its own; nothing may be complained of in its console, nor asked from anywhere else.

    One that another test has left is taken again, empty: a new process of the browser takes three times as long as the
    report. A page with other rights, and one whose test failed, is nobody else's.
    """
    local = address.startswith("file:")
    kind = (scheme, width, height, local)
    requests: list[str] = []
    complaints: list[str] = []
    listeners: dict[Any, Callable[[Any], None]] = {
        "request": lambda request: requests.append(request.url),
        "console": lambda message: complaints.append(message.text),
        "pageerror": lambda error: complaints.append(str(error)),
    }
    left = [] if more else _idle.setdefault(kind, [])
    page = left.pop() if left else _new_page(browser, *kind, **more)
    for event, listener in listeners.items():
        page.on(event, listener)
    page.goto(f"{address}#{state}")
    page.wait_for_selector(_READY)
    yield page
    assert complaints == []
    foreign = [url for url in requests if url.partition("#")[0] != address and not url.startswith(("data:", "blob:"))]
    assert [url for url in foreign if local or not url.startswith(address)] == []
    if more:
        page.context.close()
        return
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    _leave(page, width, height)
    left.append(page)


def _new_page(browser: Browser, scheme: Scheme, width: int, height: int, local: bool, **more: Any) -> Page:
    size: Any = {"width": width, "height": height}
    return browser.new_context(color_scheme=scheme, viewport=size, offline=local, locale="en-GB", **more).new_page()


def _leave(page: Page, width: int, height: int) -> None:
    """Nothing of what a test did is there for the next."""
    page.evaluate("localStorage.clear(); sessionStorage.clear()")
    page.goto("about:blank")
    page.mouse.move(0, 0)
    page.emulate_media(media="null")
    page.set_viewport_size({"width": width, "height": height})


def close_all(browser: Browser) -> None:
    """Pages that were left, and those of tests that failed."""
    _idle.clear()
    for context in browser.contexts:
        context.close()


def views(page: Page) -> list[str]:
    """The views that the navigation lists, in order."""
    names: list[str] = page.evaluate(
        "[...document.querySelectorAll('nav a')]"
        ".map(link => new URLSearchParams(link.hash.slice(1)).get('view') || 'overview')"
    )
    return names


def go(page: Page, **state: str) -> None:
    """Go to a place of the page, as by a link."""
    page.evaluate(
        "state => { const all = new URLSearchParams(location.hash.slice(1));"
        "Object.entries(state).forEach(([name, value]) => all.set(name, value)); location.hash = all; }",
        state,
    )
    page.wait_for_selector(f"main[data-view='{state['view']}']")


def faults(page: Page, *rules: str) -> list[tuple[str, list[str]]]:
    """What axe-core finds seriously wrong, with the elements: by some rules, else by those of WCAG 2.2 AA."""
    if not AXE.exists():
        pytest.skip("web-app/node_modules is not there: python tools/build_page.py")
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        "only => axe.run(document, {runOnly: only}).then(done => done.violations.map(one => "
        "[one.id, one.impact, one.nodes.map(node => node.html.slice(0, 160))]))",
        {"type": "rule" if rules else "tag", "values": list(rules) or _WCAG},
    )
    return [(name, nodes) for name, impact, nodes in found if impact in ("serious", "critical")]


def keep(page: Page, name: str) -> None:
    """Keep a picture of the page, for people to look at."""
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)
