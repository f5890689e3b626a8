"""Which stretches of a track were recorded."""

from stepscope.core.synth import MS, Synth
from stepscope.timeline import tracks


def stretches(synth: Synth, begin: str) -> tuple[tuple[int, int], ...] | None:
    return next(track.recorded for track in tracks(synth.run()) if track.id.startswith(begin))


def traced(*numbers: int) -> Synth:
    synth = Synth().add("clock_readings", source="start", time=0, offset=0, error=10)
    for step in range(20):
        synth.step(step, 100 * step, 100 * (step + 1), tags=("traced",) if step in numbers else ())
    for number in numbers:
        synth.host("aten::mm", "operator", 100 * number + 10, 100 * number + 90)
    return synth


def test_a_thread_is_recorded_in_traced_windows_only() -> None:
    assert stretches(traced(5, 6), "host:") == ((510 * MS, 690 * MS),)
    assert stretches(traced(5, 6, 12), "host:") == ((510 * MS, 700 * MS), (1200 * MS, 1290 * MS))


def test_of_a_trace_alone_nothing_is_missing() -> None:
    assert stretches(traced().host("aten::mm", "operator", 300, 310), "host:") is None
    assert stretches(traced(5), "steps:") is None


def test_a_worker_is_recorded_where_its_loop_has_spans() -> None:
    synth = traced()
    for start, end, stage in ((0, 40, "index wait"), (40, 80, "fetch"), (80, 90, "put"), (500, 560, "fetch")):
        synth.add("loader_spans", pid="7", worker=0, loader=0, iterator=0, stage=stage, start=start * MS, end=end * MS)
    assert stretches(synth, "loader:0:7:0:fetch-loop") == ((0, 90 * MS), (500 * MS, 560 * MS))
