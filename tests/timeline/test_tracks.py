"""Which tracks there are: by process, workers as the processes that they are, all on one clock."""

import json

import numpy as np
import pytest

from stepscope.core.synth import MS, Synth
from stepscope.timeline import Ref, event, frame, tracks
from stepscope.timeline.answers import frame_answer, tracks_answer
from stepscope.timeline.frame import ValueFrame


def test_loading_is_drawn_below_the_processes_that_do_it() -> None:
    synth = Synth().add("loaders", loader=0, train=True, dataset="data.Pictures")
    synth.span("fetch", 0, 1, 0, 10).span("serialize", 0, 1, 10, 12).span("wait", 0, None, 0, 14).step(0, 0, 20)
    found = [(track.kind, track.group, track.name) for track in tracks(synth.run())]
    assert found == [
        ("steps", "rank 0", "steps"),
        ("host", "rank 0, process 1", "loader 0 (Pictures): loading"),
        ("worker", "rank 0, DataLoader worker 1 of loader 0 (Pictures), process 101", "feeder thread"),
        ("worker", "rank 0, DataLoader worker 1 of loader 0 (Pictures), process 101", "fetch loop"),
    ]


def test_what_was_recorded_beside_a_trace_is_on_the_clock_of_the_trace() -> None:
    synth = Synth().step(0, 0, 10).step(1, 10, 20).host("aten::mm", "operator", 1012, 1014)
    synth.add("clock_readings", source="start", time=0, offset=1000 * MS, error=10)
    synth.add("clock_readings", source="window 0", time=20 * MS, offset=1000 * MS + 20, error=10)
    run = synth.run()
    steps = next(track for track in tracks(run) if track.kind == "steps")
    assert (steps.first, steps.last) == (1000 * MS, 1020 * MS + 20)
    assert tracks_answer(run)["notes"] == []
    assert event(run, Ref("steps:0", 0, 1010 * MS + 10)).name == "step 1"


def test_without_readings_of_both_clocks_only_the_trace_is_drawn() -> None:
    run = Synth().step(0, 0, 10).host("aten::mm", "operator", 1012, 1014).run()
    assert [track.kind for track in tracks(run)] == ["path", "host"]
    (note,) = tracks_answer(run)["notes"]
    assert note.startswith("not drawn: recorded steps, because")


def test_memory_counters_and_samples_are_values_in_their_units() -> None:
    synth = Synth().kernel(0, 10)
    for time, size, total in ((1, 512, 512), (2, 1024, 1536), (3, -512, 1024)):
        synth.add("memory", time=time * MS, device_type=1, device=0, bytes=size, total_allocated=total)
    synth.add("counters", name="queue", time=5 * MS, value=3.0)
    run = synth.run()
    assert [(track.name, track.unit) for track in tracks(run) if track.kind == "counter"] == [
        ("GPU 0: a kernel runs", "ratio"), ("CUDA 0: memory allocated", "bytes"), ("queue", None),
    ]  # fmt: skip
    allocated = next(track for track in tracks(run) if "allocated" in track.name)
    (values,) = frame(run, (0, 4 * MS), 2, [allocated.id]).tracks
    assert isinstance(values, ValueFrame)
    assert (values.low.tolist(), values.high.tolist()) == ([512, 1024], [512, 1536])


def test_samples_of_the_machine_are_of_no_rank() -> None:
    run = Synth().step(0, 0, 10).add("system", time=MS, rank=None, what="job CPU", value=2.0, unit="cores").run()
    last = tracks(run)[-1]
    assert (last.group, last.name, last.unit, last.rank) == ("the machine", "job CPU", "cores", None)


def test_answers_are_exact_numbers_for_a_browser() -> None:
    epoch = 1_700_000_000_000  # ms: beyond 2^53 as ns
    run = Synth().kernel(epoch, epoch + 1).kernel(epoch + 5, epoch + 7).run()
    told = json.loads(json.dumps(tracks_answer(run), allow_nan=False))
    assert told["origin"] == str(epoch * MS)
    assert told["end"] == 7 * MS
    drawn = frame(run, (epoch * MS, epoch * MS + 10 * MS), 10, ["stream:0:0:7"])
    answer = json.loads(json.dumps(frame_answer(drawn, epoch * MS), allow_nan=False))
    (lane,) = answer["tracks"][0]["lanes"]
    assert lane == {"lane": 0, "start": [0, 5 * MS], "length": [MS, 2 * MS], "name": [0, 0]}


def test_a_value_that_is_not_known_is_null() -> None:
    run = Synth().kernel(0, 1).kernel(9, 10).run()
    answer = frame_answer(frame(run, (-10 * MS, 10 * MS), 4, ["busy:0:0"]), 0)
    assert answer["tracks"][0]["low"] == [None, None, pytest.approx(0.2), pytest.approx(0.2)]
    assert not np.isnan(answer["tracks"][0]["low"][2])
