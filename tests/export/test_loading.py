"""The input pipeline of real runs in an exported file: what is drawn, where, and in which order."""

from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from stepscope.analyses.input_pipeline.loader_clock import loader_clock
from stepscope.core.errors import MissingData
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Analysis, Run
from stepscope.storage import open_run

from ..command import stepscope
from .recorded import STEPS, exported, recorded

Event = dict[str, Any]
CALLS = ("transform", "decode", "read")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def untraced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("untraced") / "run", "fork", trace=False)


@pytest.fixture(scope="module", params=["fork", "spawn"])
def traced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("traced") / "run", request.param, trace=True)


def ours(events: list[Event], phase: str) -> list[Event]:
    return [event for event in events if event.get("cat") == "stepscope" and event["ph"] == phase]


def stages(spans: pl.DataFrame) -> Counter[str]:
    """Names of slices as they are drawn."""
    names = pl.when(pl.col("stage").is_in(CALLS)).then("name").otherwise("stage")
    return Counter(spans.select(names).to_series())


def spans_of(run: Run) -> pl.DataFrame:
    return run.optional("loader_spans")


def test_a_run_without_a_trace_is_drawn_whole(untraced: Path) -> None:
    events, run = exported(untraced), open_run(untraced)
    drawn = Counter(event["name"] for event in ours(events, "X"))
    named = Counter(f"{what} {number}" for what in ("step", "batch") for number in range(STEPS))
    assert drawn == stages(spans_of(run)) + named
    assert min(event["ts"] for event in ours(events, "X")) == 0


def test_workers_are_the_processes_they_were(traced: Path) -> None:
    events, spans = exported(traced, "--overlay", "loader"), spans_of(open_run(traced))
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    workers = spans.drop_nulls("worker").select("pid", "worker").unique().rows()
    assert {names[int(pid)] for pid, _ in workers} == {f"DataLoader worker {n} of loader 0 (Rows)" for n in (0, 1)}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    for pid, _ in workers:
        assert threads[int(pid), int(pid)] == "fetch loop"
        feeding = {threads[e["pid"], e["tid"]] for e in ours(events, "X") if e["name"] in ("serialize", "send")}
        assert feeding == {"feeder thread"}
    main = int(spans.filter(pl.col("worker").is_null())["pid"][0])
    waits = {(e["pid"], threads[e["pid"], e["tid"]]) for e in ours(events, "X") if e["name"] == "wait"}
    assert waits == {(main, "stepscope: loader 0 (Rows)")}


def test_slices_of_a_track_nest(traced: Path, untraced: Path) -> None:
    for run in (traced, untraced):
        tracks: dict[tuple[int, int], list[tuple[Decimal, Decimal]]] = {}
        for event in ours(exported(run, "--overlay", "loader"), "X"):
            tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], -event["ts"] - event["dur"]))
        assert len(tracks) == 6  # steps and waits of the training process, a loop and a feeder thread of two workers
        for spans in tracks.values():
            open_until: list[Decimal] = []
            for start, end in sorted(spans):
                while open_until and open_until[-1] <= start:
                    open_until.pop()
                assert not open_until or -end <= open_until[-1]
                open_until.append(-end)


def test_what_a_held_worker_did_lies_inside_the_step_that_let_it(traced: Path) -> None:
    events = exported(traced, "--overlay", "loader")
    (held,) = (event for event in events if event["name"] == "held" and event["ph"] == "X")
    (call,) = (e for e in ours(events, "X") if e["name"].endswith(".Held") and e["args"]["batch"] == 7)
    assert held["ts"] < call["ts"] < call["ts"] + call["dur"] < held["ts"] + held["dur"]
    (step,) = (event for event in ours(events, "X") if event["name"] == "step 6")
    assert step["ts"] < call["ts"] < call["ts"] + call["dur"] < step["ts"] + step["dur"]
    assert call["pid"] != held["pid"]


def test_arrows_go_forward_along_the_way_of_each_batch(traced: Path, untraced: Path) -> None:
    for run in (traced, untraced):
        events = exported(run, "--overlay", "loader")
        slices = ours(events, "X")
        ways: dict[int, list[Event]] = {}
        for event in (event for event in events if event.get("cat") == "stepscope" and event["ph"] in "stf"):
            ways.setdefault(event["id"], []).append(event)
        batches = {e["args"]["batch"] for e in slices if e["name"] == "fetch"}
        assert len(ways) == len(batches)
        for way in ways.values():
            way.sort(key=lambda event: event["ts"])
            assert [event["ph"] for event in way] == ["s", "t", "t", "t", "f"]
            bound = [slice_at(slices, event) for event in way]
            (batch,) = {batch for _, batch in bound}
            assert [name for name, _ in bound] == ["send index", "fetch", "serialize", "receive", f"batch {batch}"]
            assert all(before["ts"] < after["ts"] for before, after in pairwise(way))


def test_a_batch_is_used_in_its_step(untraced: Path) -> None:
    slices = ours(exported(untraced), "X")
    times = {event["name"]: (event["ts"], event["ts"] + event["dur"]) for event in slices}
    waits = {event["args"]["batch"]: event["ts"] + event["dur"] for event in slices if event["name"] == "wait"}
    for number in range(STEPS):  # this job uses a batch a step
        assert times[f"batch {number}"] == (waits[number], times[f"step {number}"][1])
        assert times[f"step {number}"][0] < waits[number]


def slice_at(slices: list[Event], end: Event) -> tuple[str, int]:
    """Name and batch of the slice that begins where an arrow begins or ends."""
    begun = [e for e in slices if (e["pid"], e["tid"], e["ts"]) == (end["pid"], end["tid"], end["ts"])]
    bound = max(begun, key=lambda event: event["dur"])
    return bound["name"], bound["args"]["batch"]


def test_batches_near_the_window_are_drawn_whole(traced: Path) -> None:
    done = stepscope("export", str(traced), "--overlay", "loader", "-o", str(traced.with_suffix(".json")), "--force")
    assert done.returncode == 0
    assert "of batches in the traced window or up to" in done.stderr
    assert "loader: off the clock of the trace by at most" in done.stderr
    events, spans = exported(traced, "--overlay", "loader"), spans_of(open_run(traced))
    drawn = ours(events, "X")
    batches = {event["args"]["batch"] for event in drawn if event["name"] == "fetch"}
    assert {5, 6, 7} <= batches
    expected = stages(spans.filter(pl.col("batch").is_in(batches)))
    of_batches = [event["name"] for event in drawn if event["args"].get("batch") is not None]
    assert Counter(name for name in of_batches if not name.startswith("batch ")) == expected


def test_no_effect_comes_before_its_cause(traced: Path) -> None:
    table = loader_clock(open_run(traced))
    assert table["clock"].to_list() == ["worker 0", "worker 1", "window 0"]
    assert table["violations"].to_list() == [0, 0, 0]
    assert table["checked"].to_list() == [12, 12, 3]  # two of each of a worker's six batches; waits of three steps
    assert (table["low"] <= 0).all() and (table["high"] >= 0).all()
    window = table.row(-1, named=True)
    assert window["error"] < 1_000_000
    assert window["high"] < 50_000_000  # far below a step of a busy machine


def test_analyses_of_the_trace_stay_the_same(traced: Path) -> None:
    trace = next(traced.glob("*/*.pt.trace.json"))
    drawn = traced.with_name("again.json")
    done = stepscope("export", str(trace), "-o", str(drawn), "--force")
    assert done.returncode == 0 and "loader" in done.stderr, done.stderr
    first, again = open_run(trace), open_run(drawn)
    assert all("event of phase" in reason for reason in again.optional("skipped")["reason"])  # of our own events
    for name, definition in PluginGroup("analyses", Analysis).load().items():
        try:
            expected = definition(first)
        except MissingData:
            continue
        if name != "overview":  # it counts the events of the file
            assert_frame_equal(definition(again), expected, check_exact=True)
