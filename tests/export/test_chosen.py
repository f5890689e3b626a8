"""Which spans are drawn, in which processes and threads, and the ways of batches: from runs written by hand."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.export import Source, alone, draw, loading
from stepscope.export.events import Clock, slice_
from stepscope.export.loading import chosen
from stepscope.render.format import text


def span(
    synth: Synth,
    stage: str,
    start: float,
    end: float,
    *,
    worker: int | None = None,
    batch: int | None = 0,
    **more: object,
) -> None:
    """A span of loader 1, times in ms."""
    known = {"pid": "50" if worker is None else f"{60 + worker}", "iterator": 1, "epoch": 0, "loader": 1}
    synth.add(
        "loader_spans", worker=worker, batch=batch, stage=stage, start=round(start * MS), end=round(end * MS), weight=1,
        failed=False, **{**known, **more},
    )  # fmt: skip


def a_batch(synth: Synth, batch: int, at: float) -> None:
    span(synth, "send index", at, at + 1, batch=batch)
    span(synth, "fetch", at + 2, at + 10, batch=batch, worker=0)
    span(synth, "sample", at + 2, at + 5, batch=batch, worker=0, name="d.Rows", sample=3)
    span(synth, "serialize", at + 10, at + 12, batch=batch, worker=0)
    span(synth, "wait", at + 9, at + 15, batch=batch)
    span(synth, "receive", at + 13, at + 14, batch=batch)


def a_recording(*starts: float) -> Synth:
    """A batch at each time, in ms, and a step that uses it."""
    synth = Synth()
    synth.add("loaders", loader=1, dataset="pkg.Rows", train=True)
    for batch, at in enumerate(starts):
        a_batch(synth, batch, at)
        synth.add("steps", pid="50", step=batch, start=round((at + 8) * MS), end=round((at + 19) * MS), forward=7)
    return synth


def a_trace(begin: float, end: float) -> Run:
    """A window whose clock reads 1,000 ms more than the recording."""
    return Synth().host("aten::mm", "operator", 1000 + begin, 1000 + end, pid="50").run()


def beside(synth: Synth, *, offset: int = 1000) -> Run:
    return synth.add("clock_readings", source="start", time=0, offset=offset * MS, error=9).run()


def events(source: Source) -> list[dict[str, Any]]:
    """What is drawn, without the ends of slices."""
    drawn: list[dict[str, Any]] = json.loads(b"".join(alone(draw(source, ["loader"]))))["traceEvents"]
    return [event for event in drawn if event["ph"] != "E"]


def ends(drawn: list[dict[str, Any]]) -> list[tuple[str, int, float]]:
    return [(e["ph"], e["id"], e["ts"]) for e in drawn if e["ph"] in "stf"]


def test_an_arrow_passes_each_station_of_a_batch() -> None:
    drawn = events(Source(None, a_recording(100).run()))
    ms = [(phase, number, time / 1000) for phase, number, time in sorted(ends(drawn), key=lambda end: end[2])]
    assert ms == [("s", 1, 0), ("t", 1, 2), ("t", 1, 10), ("t", 1, 13), ("f", 1, 15)]
    names = [event["name"] for event in drawn if event["ph"] == "B"]
    assert names == ["send index", "fetch", "sample", "wait", "serialize", "receive", "step 0", "batch 0"]
    fetch = next(event for event in drawn if event["name"] == "fetch")
    at = drawn.index(fetch)
    assert (drawn[at + 1]["ph"], drawn[at + 2]["name"]) == ("t", "sample")  # not bound to what begins with it


def test_a_step_of_two_batches_has_two_uses() -> None:
    synth = a_recording(100)
    span(synth, "wait", 116, 117, batch=1)
    steps = chosen(Source(None, synth.run())).steps.select("step", "batch", "start", "end").rows()
    assert steps == [
        (0, None, 108 * MS, 119 * MS), (0, 0, 115 * MS, 117 * MS), (0, 1, 117 * MS, 119 * MS)
    ]  # fmt: skip


def test_a_loader_that_does_not_train_is_used_in_no_step() -> None:
    synth = a_recording(100)
    span(synth, "wait", 116, 117, batch=1, loader=2)
    assert chosen(Source(None, synth.run())).steps["batch"].to_list() == [None, 0]


def test_an_arrow_never_leads_back_in_time_and_that_is_told() -> None:
    synth = a_recording(100)
    span(synth, "send index", 300, 301, batch=1)
    span(synth, "fetch", 290, 299, batch=1, worker=0)
    span(synth, "serialize", 302, 303, batch=1, worker=0)
    source = Source(None, synth.run())
    second = [(phase, time / 1000) for phase, number, time in ends(events(source)) if number == 2]
    assert sorted(second, key=lambda end: end[1]) == [("s", 200), ("f", 202)]
    assert [text(line) for line in draw(source, ["loader"]).told()] == [
        "loader: 9 of 9 spans, of the whole run",
        "loader: arrows left out, because they would lead back in time: 1",
    ]


def test_batches_of_a_window_and_as_long_before_and_after_are_drawn_whole() -> None:
    synth = a_recording(100, 165, 171, 220, 240, 261)
    source = Source(a_trace(200, 220), beside(synth))  # 20 ms
    found = chosen(source)
    assert found.spans["batch"].unique().sort().to_list() == [1, 2, 3, 4]  # the first of these ends 20 ms before it
    assert found.spans.height == 4 * 6
    fetches = [event for event in events(source) if event["name"] == "fetch"]
    assert len(fetches) == 4


def test_times_are_on_the_clock_of_the_trace() -> None:
    source = Source(a_trace(100, 120), beside(a_recording(100)))
    drawing = draw(source, ["loader"])
    fetch = next(line for line in map(json.loads, drawing.events()) if line["name"] == "fetch")
    assert fetch["ts"] == 1102 * 1000  # µs; this trace names no time at which its clock reads 0


def test_the_nearest_batches_are_drawn_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "MOST", 15)
    synth = a_recording(100, 150, 200, 250)
    assert chosen(Source(None, synth.run())).spans["batch"].unique().sort().to_list() == [0, 1]
    near = chosen(Source(a_trace(190, 240), beside(synth))).spans
    assert near["batch"].unique().sort().to_list() == [2, 3]


def test_spans_that_overlap_without_nesting_get_a_thread_each() -> None:
    synth = a_recording(100)
    span(synth, "wait", 112, 130, batch=7)
    threads = [event["args"]["name"] for event in events(Source(None, synth.run())) if event["name"] == "thread_name"]
    label = "stepscope: loader 1 (Rows)"
    assert threads == [label, f"{label} (2)", "fetch loop", "feeder thread", "stepscope: training steps"]


def test_pinning_and_loaders_inside_a_worker_have_threads_of_their_own() -> None:
    synth = a_recording(100)
    span(synth, "pin", 114, 114.5)
    span(synth, "fetch", 103, 104, worker=0, iterator=None, loader=None)
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events(Source(None, synth.run()))
        if event["name"] == "thread_name"
    }
    tracks = [
        (event["name"], names[event["pid"], event["tid"]])
        for event in events(Source(None, synth.run()))
        if event["ph"] == "B"
    ]
    assert ("receive", "stepscope: loader 1 (Rows), pin-memory thread") in tracks
    assert ("pin", "stepscope: loader 1 (Rows), pin-memory thread") in tracks
    assert ("wait", "stepscope: loader 1 (Rows)") in tracks
    assert [label for name, label in tracks if name == "fetch"] == ["fetch loop", "loaders inside the worker"]


def test_a_worker_whose_number_the_trace_uses_gets_another() -> None:
    trace = Synth().host("x", "operator", 1100, 1120, pid="60").run()
    processes = {
        event["args"]["name"]: event["pid"]
        for event in events(Source(trace, beside(a_recording(100))))
        if event["name"] == "process_name"
    }
    assert processes == {"DataLoader worker 0 of loader 1 (Rows), process 60": 2_000_000_001}


def test_what_is_missing_is_said() -> None:
    recorded = a_recording(100).run()
    for source, what in (
        (Source(a_trace(1, 2)), "spans of the input pipeline"),
        (Source(a_trace(1, 2), Synth().step(0, 0, 1).run()), "times of data loading"),
        (Source(Synth().run(), recorded), "work of the host in this trace"),
        (Source(a_trace(1, 2), recorded), "readings of the clocks"),
    ):
        drawing = draw(source, ["loader"])
        assert drawing.drawn == ()
        assert drawing.missing["loader"].what == what
    with pytest.raises(MissingData, match="traced window"):
        Source(None, recorded).traced()


def test_the_readings_of_its_own_window_count() -> None:
    """The wall clock was set ahead by 500 ms between two windows."""
    synth = a_recording(100)
    for source, time, offset in (("window 0", 95, 500), ("window 0", 125, 500), ("window 1", 600, 1000)):
        synth.add("clock_readings", source=source, time=time * MS, offset=offset * MS, error=9)
    recorded = synth.run()
    first = Synth().host("x", "operator", 600, 620).run()
    assert Source(first, recorded).offset().offset == 500 * MS
    assert Source(first, recorded).offset().error == 9


def test_a_trace_far_from_all_spans_is_told() -> None:
    drawing = draw(Source(a_trace(5000, 5001), beside(a_recording(100))), ["loader"])
    assert drawing.missing["loader"].what == "spans of the input pipeline near the traced window"


@given(start=st.integers(0, 2**53), lengths=st.lists(st.integers(0, 10**7), min_size=2, max_size=4))
def test_slices_side_by_side_stay_so_in_a_viewer_that_computes_with_floats(start: int, lengths: list[int]) -> None:
    ends = [start + sum(lengths[: place + 1]) for place in range(len(lengths))]
    written = [
        json.loads(slice_(Clock(0), 1, 1, "x", end - length, length, {}))
        for end, length in zip(ends, lengths, strict=True)
    ]
    read = [(int(one["ts"] * 1000), int(one["dur"] * 1000)) for one in written]
    assert all(before[0] + before[1] <= after[0] or before[1] == 0 for before, after in pairwise(read))
