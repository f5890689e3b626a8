"""What recording costs, from distances between events that are known here."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyses.device.lib.recording_idle import recording_idle, shrunk
from stepscope.analyses.host.lib.recording_cost import MEASURED, WHOLE, recording_costs, recording_per_step
from stepscope.core.synth import MS, Synth

US = 0.001  # ms


def nested(count: int, *, kind: str = "operator", start: float = 2 * US, end: float = 1 * US) -> Synth:
    """Steps of 1 ms: in each a call, and one inside it, so long after its start and before its end."""
    synth = Synth()
    for at in range(count):
        synth.host(f"ProfilerStep#{at}", "annotation", at, at + 1)
        synth.host("outer", kind, at + 0.1, at + 0.2)
        synth.host("inner", kind, at + 0.1 + start, at + 0.2 - end)
    return synth


def test_the_shortest_distances_tell_what_an_event_of_a_kind_costs() -> None:
    cost = recording_costs(nested(200, kind="python").run())[0]
    assert cost.per_event["python"] == pytest.approx(WHOLE * 3_000)
    assert cost.per_event["memory"] == MEASURED["memory"]
    assert cost.events == {"operator": 200, "python": 400, "call": 0, "memory": 0}


def test_calls_of_the_runtime_follow_each_other() -> None:
    synth = nested(1)
    for at in range(200):
        synth.host("cudaLaunchKernel", "runtime", at, at + 0.1)
        synth.host("cudaLaunchKernel", "runtime", at + 0.1 + US, at + 0.2)
    assert recording_costs(synth.run())[0].per_event["call"] == pytest.approx(WHOLE * 1_000)


def test_too_few_pairs_tell_nothing() -> None:
    assert recording_costs(nested(20).run())[0].per_event == MEASURED


def test_a_step_costs_what_its_events_cost() -> None:
    run = nested(20).run()
    assert recording_per_step(run, 0) == pytest.approx(3 * MEASURED["operator"])
    assert recording_per_step(run, 1) == 0
    assert recording_per_step(Synth().kernel(0, 10).run(), 0) == 0


def launched(synth: Synth, call: float, start: float, end: float, number: int) -> Synth:
    synth.host("cudaLaunchKernel", "runtime", call, call + 0.01, correlation=number)
    return synth.kernel(start, end, correlation=number)


def test_a_gap_shrinks_by_what_recording_cost_since_the_last_one() -> None:
    """10 operators and a launch before the second kernel: what they cost is a part of the gap of 0.52 ms."""
    synth = launched(Synth(), 0, 0.02, 1, 1)
    for at in range(10):
        synth.host("aten::add", "operator", 1.1 + 0.01 * at, 1.101 + 0.01 * at)
    launched(synth, 1.5, 1.52, 2, 2)
    window = np.array([[0, 3 * MS]], dtype=np.int64)
    expected = (10 * MEASURED["operator"] + MEASURED["call"]) / (0.52 * MS)
    assert recording_idle(synth.run(), 0, 0, window) == pytest.approx(expected)
    assert recording_idle(synth.run(), 0, 0, window[:, :1].repeat(2, axis=1)) == 0, "no gap begins there"


def test_what_recording_cost_before_a_wait_for_the_device_is_forgotten() -> None:
    synth = launched(Synth(), 0, 0.02, 1, 1)
    for at in range(10):
        synth.host("aten::add", "operator", 0.1 + 0.01 * at, 0.101 + 0.01 * at)
    synth.host("cudaStreamSynchronize", "runtime", 0.3, 1.1)
    launched(synth, 1.5, 1.52, 2, 2)
    window = np.array([[0, 3 * MS]], dtype=np.int64)
    assert recording_idle(synth.run(), 0, 0, window) == pytest.approx(MEASURED["call"] / (0.52 * MS))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()), min_size=1, max_size=30))
def test_gaps_shrink_as_if_each_was_looked_at_in_turn(rows: list[tuple[int, int, bool]]) -> None:
    late = [late for late, _, _ in rows]
    since = [at for at, (_, _, waits) in enumerate(rows) if waits or at == 0]
    saved: list[float] = []
    whole = total = so_far = 0.0
    for at, (can, more, _) in enumerate(rows):
        if at in since:
            whole, total, so_far = 0.0, total + so_far, 0.0
        whole += more
        saved.append(whole)
        so_far = min(so_far + can, whole)
    expected = total + so_far
    found = shrunk(np.array(saved), np.array(late, dtype=np.int64), np.array(since, dtype=np.int64))
    assert found == pytest.approx(expected)
