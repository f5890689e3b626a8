"""The window that a file holds: a step with its neighbors, whole, bounded, and said to be a part."""

import json
from typing import Any

from stepscope.core.synth import MS, Synth
from stepscope.timeline import excerpt, frame
from stepscope.timeline.frame import SpanFrame


def a_run(steps: int = 9) -> Synth:
    synth = Synth()
    for step in range(steps):
        synth.step(step, 10 * step, 10 * step + 10, clock="kineto")
        for k in range(5):
            synth.kernel(10 * step + k, 10 * step + k + 0.5, correlation=step, grid="[1, 1, 1]")
    return synth


def starts(told: dict[str, Any], track: str) -> list[int]:
    found, at = [], 0
    for after in told["spans"][track][0]["after"]:
        at += after
        found.append(at)
    return found


def test_a_small_run_is_there_whole() -> None:
    told = json.loads(json.dumps(excerpt(a_run().run()), allow_nan=False))
    assert told["whole"] is True
    assert starts(told, "steps:0") == [10 * MS * step for step in range(9)]
    of_kernels = {number for lane in told["spans"]["stream:0:0:7"] for number in lane["told"]}
    assert len(of_kernels) == 1  # what all kernels have in common is written once
    assert told["told"][of_kernels.pop()] == {"kind": "kernel", "grid": "[1, 1, 1]"}
    causes = [told["told"][number]["class"] for lane in told["spans"]["gaps:0:0"] for number in lane["told"]]
    assert causes == ["unknown"] * 44


def test_of_a_larger_run_the_step_nearest_to_the_mean_is_there_with_its_neighbors() -> None:
    told = excerpt(a_run().step(9, 90, 200, clock="kineto").run(), most=80)
    assert told["whole"] is False
    assert told["window"][1] - told["window"][0] == 30 * MS
    assert len(starts(told, "stream:0:0:7")) == 15
    assert sum(track["count"] for track in told["tracks"] if track["kind"] == "stream") == 45


def test_where_a_step_is_too_much_its_beginning_is_there() -> None:
    run = a_run().run()
    told = excerpt(run, most=4)
    start, end = told["window"]
    drawn = frame(run, (start, end), 1000).tracks
    assert sum(track.drawn + track.merged for track in drawn if isinstance(track, SpanFrame)) <= 4
    assert len(starts(told, "stream:0:0:7")) == 1
