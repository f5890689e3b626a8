"""What a reader waits for: the first screen of `stepscope view`, the page as a file, the timeline while it moves, and
Perfetto beside it.

Everything is measured in Debian's Chromium, which runs with an empty tab before the clock starts, on the trace of
`bench/open_trace.py`, whose tables are in the cache. First screen: from the start of the command until the page has
drawn the report. Requests: what the browser waited for frames while the window was moved and zoomed by keys, one after
the other. Memory: proportional set size of the server, and of all processes of the browser. Perfetto gets windows of
the same run with so many spans as are named, until it has read them.

With --first only this: how long it takes, from the start of the command, until the first finding of each run or trace
is drawn (without findings: the verdict), opened for the first time, with an empty cache. CPU time is that of the server
until then. With --against the package in another folder is measured too, in turn. With --reported each was reported on
a terminal before, as `stepscope run` does at its end.

Usage: python bench/view.py [--size MB] [--trace FILE] [--runs N] [--spans N,N,…]
       python bench/view.py --first PATH… [--reported] [--runs N] [--against SRC]
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

import stepscope
from open_trace import KEPT, TILED, corpus, tiled
from stepscope.render.html import report_html
from stepscope.report.assemble import assemble
from stepscope.storage import open_run
from stepscope.storage.cache import VARIABLE
from stepscope.timeline import excerpt, origin, tracks
from stepscope.web.trace_text import count

CHROMIUM = os.environ.get("STEPSCOPE_CHROMIUM", "/usr/bin/chromium")
MOVES = "wwwdwdawwdsswwddaawwwdsdssa" * 3
PATIENCE = 120_000  # ms
READY, DRAWN = "html[data-ready]", ".timeline[data-drawn]"
VERDICT = "main h1"  # drawn together with the findings
PAINTED = f"""new MutationObserver((_, observer) => {{
  if (!document.querySelector("{VERDICT}")) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => {{ window.painted = performance.timeOrigin + performance.now(); }}));
}}).observe(document, {{ childList: true, subtree: true }});"""
"""The page notes when the verdict was painted: a test program learns of it only when the page has nothing to do."""
FRAMES = """() => performance.getEntriesByType('resource').filter(one => one.name.includes('timeline/frame'))
    .map(one => one.duration)"""


@contextmanager
def viewed(trace: Path, **more: str) -> Iterator[tuple[subprocess.Popen[str], str, float]]:
    """The server of a trace, its address, and when it was started. `more` of its environment."""
    words = [sys.executable, "-m", "stepscope", "view", str(trace), "--no-browser"]
    began = time.perf_counter()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **more}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout
        yield process, process.stdout.readline().split()[0], began
    finally:
        process.terminate()
        process.wait()


def memory(pids: list[int]) -> float:
    """Proportional set size of processes in MB."""
    found = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        found += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return found / 1000


def below(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
        except OSError:
            continue
    found, open_ = [], [pid]
    while open_:
        more = parents.get(open_.pop(), [])
        found += more
        open_ += more
    return found


def browser_memory(server: int) -> float:
    return memory([pid for pid in below(os.getpid()) if pid != server and "chrom" in _name(pid)])


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def told(what: str, times: list[float], unit: str = "ms") -> None:
    ordered = sorted(times)
    later = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    figures = f"{statistics.median(ordered):8.1f} {unit} median {later:8.1f} p95 {ordered[-1]:8.1f} worst"
    print(f"{what:<34} {len(ordered):4} times: {figures}", flush=True)


def first_screens(browser: Browser, trace: Path, runs: int) -> None:
    """Where the report was not made before, and where it was."""
    shutil.rmtree(Path(os.environ[VARIABLE]) / "reports", ignore_errors=True)
    first_screen(browser, trace, 1, "first screen, new report")
    first_screen(browser, trace, runs, "first screen, known report")


def first_screen(browser: Browser, trace: Path, runs: int, what: str) -> None:
    waits, pages = [], []
    for _ in range(runs):
        page = browser.new_page()  # an empty tab of its own, without what others have kept
        with viewed(trace) as (_process, address, began):
            served = time.perf_counter()
            page.goto(address)
            page.wait_for_selector(READY)
            waits.append(time.perf_counter() - began)
            pages.append(time.perf_counter() - served)
        page.close()
    told(what, waits, "s")
    told("  of it in the browser", pages, "s")


def first_findings(browser: Browser, paths: list[Path], runs: int, against: Path | None, *, reported: bool) -> None:
    """Each path with each package in turn, so that what else the machine does disturbs all alike."""
    packages = {"": Path(stepscope.__file__).parents[1], **({"against: ": against} if against else {})}
    for path in paths:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in packages}
        for _ in range(runs):
            for name, source in packages.items():
                found[name].append(first_finding(browser, path, source, reported=reported))
        for name, figures in found.items():
            told(f"{name}{path.name[:34]}", [wall for wall, _ in figures], "s")
            told("  of it CPU of the server", [cpu for _, cpu in figures], "s")


def first_finding(browser: Browser, path: Path, source: Path, *, reported: bool) -> tuple[float, float]:
    """Seconds until the first finding is drawn, and CPU seconds of the server and what it started."""
    page = browser.new_page()
    with tempfile.TemporaryDirectory() as cache:
        set_ = {"PYTHONPATH": str(source), VARIABLE: cache}
        if reported:
            words = [sys.executable, "-m", "stepscope", "report", str(path)]
            subprocess.run(words, env={**os.environ, **set_}, stdout=subprocess.DEVNULL, check=True)
        page.add_init_script(PAINTED)
        started = time.time()
        with viewed(path, **set_) as (process, address, _began):
            page.goto(address, wait_until="commit")
            page.wait_for_selector(VERDICT, timeout=PATIENCE)
            used = cpu(process.pid)
            while not (painted := page.evaluate("window.painted")):
                pass
            wall = painted / 1000 - started
    page.close()
    return wall, used


def cpu(pid: int) -> float:
    """User and system time of a process and of its children that have ended, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def as_file(trace: Path) -> None:
    began = time.perf_counter()
    target = KEPT / "report.html"
    words = [sys.executable, "-m", "stepscope", "report", str(trace), "--format", "html", "-o", str(target)]
    subprocess.run(words, check=True)
    print(f"{'report --format html':<34} {time.perf_counter() - began:6.2f} s, {target.stat().st_size:,} bytes")
    run = open_run(trace, use_cache=True)
    began = time.perf_counter()
    report = assemble(run)
    assembled = time.perf_counter()
    cut = excerpt(run)
    drawn = time.perf_counter()
    report_html(report, cut)
    print(f"{'  the report, in one process':<34} {assembled - began:6.2f} s")
    print(f"{'  the excerpt of the timeline':<34} {drawn - assembled:6.2f} s", flush=True)


def moving(page: Page, address: str, server: int) -> None:
    began = time.perf_counter()
    page.goto(f"{address}#view=timeline")
    page.wait_for_selector(DRAWN)
    print(f"{'timeline: first drawn':<34} {time.perf_counter() - began:6.2f} s")
    page.evaluate("performance.setResourceTimingBufferSize(5000); performance.clearResourceTimings()")
    page.locator("canvas.tracks").focus()
    for key in MOVES:
        page.keyboard.press(key)
        page.wait_for_timeout(150)
    page.wait_for_load_state("networkidle")
    told("timeline: requests of frames", page.evaluate(FRAMES))
    print(
        f"{'timeline: memory':<34} server {memory([server]):,.0f} MB, browser {browser_memory(server):,.0f} MB",
        flush=True,
    )


def perfetto(page: Page, address: str, server: int, trace: Path, spans: int) -> None:
    """The window from the first moment on that has about so many spans, in Perfetto."""
    run = open_run(trace, use_cache=True)
    first, low = origin(run), 0
    high = max(track.last for track in tracks(run)) - first
    while high - low > 1000:
        half = (low + high) // 2
        low, high = (half, high) if count(run, (first, first + half)) < spans else (low, half)
    page.goto(f"{address}#view=timeline&from=0&to={low}")
    page.reload()
    page.wait_for_selector(DRAWN)
    before, began = browser_memory(server), time.perf_counter()
    page.get_by_role("button", name="Open this window in Perfetto").click()
    status = page.locator(".perfetto [role=status]").filter(has_text="dropped")
    status.wait_for(timeout=PATIENCE)
    took, now = time.perf_counter() - began, browser_memory(server)
    known = count(run, (first, first + low))
    print(
        f"{f'Perfetto: {known:,} spans':<34} {took:6.1f} s, {now - before:,.0f} MB more: {status.inner_text()}",
        flush=True,
    )


@contextmanager
def launched() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        browser.new_page()  # an empty tab, before any clock starts
        yield browser
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1000, help="MB of the trace")
    parser.add_argument("--trace", type=Path, help="another trace than the tiled one")
    parser.add_argument("--runs", type=int, default=3, help="of the first screen")
    parser.add_argument("--spans", default="60000,250000,1000000", help="that Perfetto gets; empty: none")
    parser.add_argument("--first", nargs="+", type=Path, metavar="PATH", help="only the first finding of these")
    parser.add_argument("--reported", action="store_true", help="with --first: after a report on a terminal")
    parser.add_argument("--against", type=Path, metavar="SRC", help="with --first: a folder with another stepscope")
    options = parser.parse_args()
    if options.first:
        with launched() as browser:
            first_findings(browser, options.first, options.runs, options.against, reported=options.reported)
    else:
        everything(options)


def everything(options: argparse.Namespace) -> None:
    os.environ.setdefault(VARIABLE, str(KEPT / "cache"))
    trace = options.trace or tiled(options.size, corpus() / TILED)
    open_run(trace, use_cache=True)  # fills the cache
    print(f"{trace.name}: {trace.stat().st_size / 1e6:,.0f} MB; load {os.getloadavg()[0]:.1f}", flush=True)
    with launched() as browser:
        first_screens(browser, trace, options.runs)
        as_file(trace)
        with viewed(trace) as (process, address, _):
            page = browser.new_page(viewport={"width": 1600, "height": 1000})
            moving(page, address, process.pid)
            for spans in (int(word) for word in options.spans.split(",") if word):
                perfetto(page, address, process.pid, trace, spans)


if __name__ == "__main__":
    main()
