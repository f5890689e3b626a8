"""The pace of a running job, from records as the probe writes them."""

import struct
from pathlib import Path

import pytest

from stepscope.cli._progress import Reporter
from stepscope.observe.pace import Pace, read_pace

MS = 1_000_000
HEADER = struct.pack("<16sIIqq24x", b"STEPSCOPE-STEPS1", 64, 88, 0, 0)


def record(step: int, start: int, end: int, data_wait: int) -> bytes:
    return struct.pack("<qqqqqqqqqqiI", step, start, end, data_wait, 0, 0, 0, 0, 0, -1, 1, 0)


def write(run: Path, folder: str, data: bytes) -> None:
    (run / folder).mkdir()
    (run / folder / "steps.bin").write_bytes(data)


def test_the_pace_is_of_the_last_steps(tmp_path: Path) -> None:
    slow = b"".join(record(i, 0, 900 * MS, 0) for i in range(100))
    recent = b"".join(record(100 + i, 0, 40 * MS, 30 * MS) for i in range(50))
    write(tmp_path, "rank-00000.pid-1", HEADER + slow + recent + b"partial")
    assert read_pace(str(tmp_path)) == Pace(step=149, step_ns=40 * MS, data_wait=0.75, ended=40 * MS)


def test_an_unseen_wait_is_not_zero(tmp_path: Path) -> None:
    write(tmp_path, "rank-00000.pid-1", HEADER + record(7, 0, 40 * MS, -1))
    assert read_pace(str(tmp_path)) == Pace(step=7, step_ns=40 * MS, data_wait=None, ended=40 * MS)


@pytest.mark.parametrize(("counted", "last"), [(0, 59), (50, 49)])
def test_the_pace_of_a_file_that_is_longer_than_its_records(tmp_path: Path, counted: int, last: int) -> None:
    header = struct.pack("<16sIIqqq16x", b"STEPSCOPE-STEPS1", 64, 88, 0, 0, counted)
    steps = b"".join(record(i, 0, MS, 0) for i in range(60)) + bytes(88 * 20)
    write(tmp_path, "rank-00000.pid-1", header + steps)
    assert read_pace(str(tmp_path)) == Pace(step=last, step_ns=MS, data_wait=0.0, ended=MS)


@pytest.mark.parametrize("data", [b"", HEADER, HEADER + bytes(88 * 100), b"x" * 500, HEADER[:30]])
def test_a_rank_without_steps_is_passed_over(tmp_path: Path, data: bytes) -> None:
    write(tmp_path, "rank-00000.pid-1", data)
    assert read_pace(str(tmp_path)) is None
    write(tmp_path, "rank-00001.pid-2", HEADER + record(3, 0, MS, 0))
    assert read_pace(str(tmp_path)) == Pace(step=3, step_ns=MS, data_wait=0.0, ended=MS)


def test_no_folder_no_pace(tmp_path: Path) -> None:
    assert read_pace(str(tmp_path / "none")) is None


def test_lines_come_at_growing_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 1000.0
    monkeypatch.setattr("stepscope.cli._progress.time.monotonic", lambda: now)
    write(tmp_path, "rank-00000.pid-1", HEADER + record(1240, 0, 41 * MS, 25_830_000))
    reporter = Reporter(str(tmp_path), clear=True)
    at = []
    for second in range(200):
        now = 1000.0 + second
        reporter.tick()
        if text := capsys.readouterr().err:
            assert text == "\r\x1b[Kstepscope: step 1,240 · 41 ms/step · data wait 63 %\n"
            at.append(second)
    assert at == [5, 15, 30, 60, 120, 180]


def test_a_job_that_starts_late_gets_one_line_not_four(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = iter([0.0, 40.0, 41.0, 41.0, 41.0, 41.0, 41.0, 42.0, 59.0])
    monkeypatch.setattr("stepscope.cli._progress.time.monotonic", lambda: next(times))
    reporter = Reporter(str(tmp_path), clear=False)
    reporter.tick()
    write(tmp_path, "rank-00000.pid-1", HEADER + record(1, 0, MS, 0))
    for _ in range(3):
        reporter.tick()
    assert list(times) == []
    assert capsys.readouterr().err.count("\n") == 1
