"""The device's step times, with a stand-in for torch.cuda: no GPU is needed to know when an event may be read."""

import struct
from pathlib import Path

import pytest

from stepscope.collect.device_clock import DeviceClock
from stepscope.collect.recorder import Recorder


class Event:
    def __init__(self, device: "Device") -> None:
        self.device = device

    def record(self) -> None:
        self.at_ms = self.device.submitted_ms

    def query(self) -> bool:
        return self.at_ms <= self.device.reached_ms

    def elapsed_time(self, other: "Event") -> float:
        assert self.query()
        assert other.query()
        return other.at_ms - self.at_ms


class Device:
    """torch.cuda as far as the clock uses it. It fails a test that synchronizes: there is nothing to do it with."""

    def __init__(self) -> None:
        self.submitted_ms = self.reached_ms = 0.0
        self.capturing = False
        self.events = 0

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def Event(self, enable_timing: bool) -> Event:
        assert enable_timing
        self.events += 1
        return Event(self)


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(str(tmp_path / "rank"))


def rows(recorder: Recorder) -> list[tuple[int, int]]:
    content = (Path(recorder.directory) / "device_steps.bin").read_bytes()
    assert (content[:16], struct.unpack_from("<II", content, 16)) == (b"STEPSCOPE-DEVIC1", (64, 16))
    (complete,) = struct.unpack_from("<q", content, 40)
    return [struct.unpack_from("<qq", content, 64 + 16 * index) for index in range(complete)]


def test_a_step_is_written_once_the_device_has_reached_its_end(recorder: Recorder) -> None:
    device = Device()
    clock = DeviceClock(device, recorder)
    for step, ends in enumerate((10.0, 12.5, 30.0)):
        device.submitted_ms = ends
        clock.step_ended(step)
    assert rows(recorder) == []
    device.reached_ms, device.submitted_ms = 12.5, 31.0
    clock.step_ended(3)
    assert rows(recorder) == [(1, 2_500_000)]
    device.reached_ms = 31.0
    clock.close()
    assert rows(recorder) == [(1, 2_500_000), (2, 17_500_000), (3, 1_000_000)]


def test_events_are_used_again(recorder: Recorder) -> None:
    device = Device()
    clock = DeviceClock(device, recorder)
    for step in range(100):
        device.submitted_ms = device.reached_ms = step * 1.0
        clock.step_ended(step)
    assert device.events < 5
    assert len(rows(recorder)) == 99


def test_a_captured_step_has_no_event_and_no_time(recorder: Recorder) -> None:
    device = Device()
    clock = DeviceClock(device, recorder)
    for step in range(4):
        device.capturing = step == 1
        device.submitted_ms = device.reached_ms = step * 1.0
        clock.step_ended(step)
    clock.close()
    assert rows(recorder) == [(3, 1_000_000)]


def test_a_device_far_behind_costs_no_memory(recorder: Recorder) -> None:
    device = Device()
    clock = DeviceClock(device, recorder)
    for step in range(3000):
        device.submitted_ms = step + 1.0
        clock.step_ended(step)
    assert device.events == 1024
