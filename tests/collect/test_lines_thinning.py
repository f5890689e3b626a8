"""A long run of the line sampler fills no disk."""

import threading
import time
from pathlib import Path

import pytest

from stepscope.collect.line_sampler import lines
from stepscope.collect.recorder import Recorder
from stepscope.collect.step_clock.state import State
from stepscope.run_format.records import LINE

pytestmark = pytest.mark.alone


def test_a_long_run_is_sampled_half_as_often_for_twice_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "HALVED_AFTER", 20)
    state = State()
    state.thread = threading.get_ident()
    recorder = Recorder(str(tmp_path / "rank"))
    sampler = lines.Sampler(state, recorder, 500)
    monkeypatch.setattr(lines, "_FLUSH_NS", 20_000_000)  # samples are counted as they are written
    begin = time.monotonic_ns()
    sampler.start()
    while time.monotonic_ns() - begin < 1_500_000_000:
        sum(range(1000))
    sampler.close()
    took = time.monotonic_ns() - begin
    recorder.close()
    data = (tmp_path / "rank" / "lines.bin").read_bytes()[64:]
    weights = [row[2] for row in LINE.struct.iter_unpack(data)]
    assert len(weights) < 250
    assert set(weights) >= {2_000_000, 4_000_000, 8_000_000}
    assert sum(weights) == pytest.approx(took, rel=0.2)
