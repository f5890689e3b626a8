"""The tracks that analyses give: idle times with their causes, the critical path, launches that wait."""

from itertools import pairwise

from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.timeline import Ref, event, find, frame, tracks
from stepscope.timeline.frame import SpanFrame, ValueFrame


def a_run() -> Run:
    """Two kernels; the host launches the second one only after it has copied something."""
    synth = Synth().step(0, 0, 100, clock="kineto")
    synth.host("cudaLaunchKernel", "runtime", 1, 2, correlation=1).kernel(5, 20, "gemm", correlation=1)
    synth.host("aten::item", "operator", 20, 60).host("cudaLaunchKernel", "runtime", 60, 61, correlation=2)
    return synth.kernel(63, 90, "gemm", correlation=2).run()


def spans(run: Run, track: str) -> list[tuple[str, str, int, int]]:
    drawn = frame(run, (0, 100 * MS), 1000, [track])
    (found,) = drawn.tracks
    assert isinstance(found, SpanFrame)
    (lane,) = found.lanes
    return [
        (*drawn.names[name], start // MS, end // MS)
        for name, start, end in zip(lane.name, lane.start.tolist(), lane.end.tolist(), strict=True)
    ]


def test_idle_times_stand_below_their_device_with_their_cause() -> None:
    run = a_run()
    assert spans(run, "gaps:0:0") == [("host: aten::item", "operator", 20, 63)]
    known = [track.id for track in tracks(run)]
    assert known.index("stream:0:0:7") < known.index("gaps:0:0") < known.index("busy:0:0")
    told = {argument.name: argument.value for argument in event(run, Ref("gaps:0:0", 0, 20 * MS)).arguments}
    assert (told["class"], told["activity"], told["host"], told["next"]) == ("host", "aten::item", 40 * MS, "gemm")


def test_the_critical_path_of_a_step_has_no_holes() -> None:
    found = spans(Synth().kernel(0, 20, "gemm").kernel(63, 90, "gemm").run(), "path:0")
    assert (found[0][2], found[-1]) == (0, ("gemm", "compute", 63, 90))
    assert all(before[3] == after[2] for before, after in pairwise(found))


def test_launches_that_wait_are_a_value_over_time() -> None:
    run = a_run()
    track = next(track for track in tracks(run) if track.id == "queue:0:0:7")
    assert (track.unit, track.lanes) == ("count", 0)
    (found,) = frame(run, (0, 10 * MS), 10, [track.id]).tracks
    assert isinstance(found, ValueFrame)
    assert found.high.tolist()[1:6] == [1, 1, 1, 1, 0]


def test_a_search_finds_a_name_where_it_ran_only() -> None:
    assert find(a_run(), "gemm").total == 2


def test_a_run_without_a_device_has_a_path_and_no_idle_times() -> None:
    kinds = [track.kind for track in tracks(Synth().host("aten::mm", "operator", 0, 10).run())]
    assert kinds == ["path", "host"]
