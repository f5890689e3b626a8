"""Debian's Chromium: one for all tests of a process, since its start takes as long as many of them.

Its headless shell draws the same pages with two thirds of the time, and is taken where it is installed.
"""

import asyncio
import os
from asyncio import AbstractEventLoop
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from .viewing import close_all

SHELL = "/usr/bin/chromium-headless-shell"
CHROMIUM = os.environ.get("STEPSCOPE_CHROMIUM", SHELL if Path(SHELL).exists() else "/usr/bin/chromium")
OPTIONS = ("--no-sandbox", "--disable-gpu", "--js-flags=--liftoff-only")
"""The last: each opening of Perfetto takes a second less, since its trace processor is compiled once and not twice."""

expect.set_options(timeout=30_000)  # ms; the machine may be busy


@pytest.fixture(scope="session")
def running() -> Iterator[tuple[Browser, AbstractEventLoop]]:
    """The browser, and the event loop in which Playwright talks to it."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no browser at {CHROMIUM}: apt-get install chromium-headless-shell, or set STEPSCOPE_CHROMIUM")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[*OPTIONS])
        loop = asyncio.get_running_loop()
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture(scope="module")
def browser(running: tuple[Browser, AbstractEventLoop]) -> Iterator[Browser]:
    """Between these modules no event loop runs, as tests with one of their own expect."""
    browser, loop = running
    asyncio._set_running_loop(loop)
    yield browser
    close_all(browser)
    asyncio._set_running_loop(None)
