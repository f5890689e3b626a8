"""The user's lines that launch device work."""

import pytest

from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.launch_lines import launch_lines, launch_places
from stepscope.core.synth import Synth


def traced(*, frames: bool = True) -> Synth:
    """A step with a launch by line 41 of 30 ms of work, and one by line 43, in a library, of 10 ms."""
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100)
    if frames:
        synth.host("/home/me/train.py(7): main", "python", 0, 100, python_id=1)
        synth.host("/home/me/train.py(41): forward", "python", 5, 20, python_id=2, python_parent_id=1)
        synth.host("/home/me/train.py(43): forward", "python", 30, 40, python_id=3, python_parent_id=1)
        synth.host("torch/nn/functional.py(9): linear", "python", 31, 39, python_id=4, python_parent_id=3)
    for number, (start, work) in enumerate(((10, 30), (35, 10)), 1):
        synth.host("aten::mm", "operator", start, start + 3)
        synth.host("cudaLaunchKernel", "runtime", start + 1, start + 2, correlation=number)
        synth.kernel(start + 5, start + 5 + work, correlation=number)
    return synth


def test_lines_come_with_the_time_of_the_work_they_launch() -> None:
    run = traced().run()
    lines = launch_lines(run, device_work(run)["role"] == "compute")
    assert lines.select("rank", "line", "time").rows() == [(0, 41, 30_000_000), (0, 43, 10_000_000)]
    places = launch_places(lines, 0, 0.4)
    assert [(place.line, place.symbol, place.of) for place in places] == [
        (41, "forward", "the step"),
        (43, "forward", "the step"),
    ]
    assert [place.share for place in places] == pytest.approx([0.3, 0.1])
    assert launch_places(lines, 1, 0.4) == ()


def test_only_the_work_that_is_meant_counts() -> None:
    run = traced().run()
    assert launch_lines(run, device_work(run)["start"] > 30_000_000)["line"].to_list() == [43]


def test_a_trace_without_frames_names_no_line() -> None:
    run = traced(frames=False).run()
    assert launch_lines(run, device_work(run)["role"] == "compute").is_empty()
    empty = Synth().run()
    assert launch_lines(empty, device_work(run)["role"] == "compute").is_empty()
