"""system.jsonl does not grow with the length of the job, and its means stay what they were."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli._system_log import SystemLog


class Counted:
    """Takes the place of the sampler: a sample says which second it is."""

    def __init__(self) -> None:
        self.taken = self.second = 0

    def sample(self) -> dict[str, Any]:
        self.taken += 1
        number = self.second
        return {
            "epoch_ns": number * 10**9, "cores": 2, "system_cpu_ratio": number / 1000, "job_rss_bytes": 1000 * number,
            "core_wait_ratio": {"7": number / 1000, str(100 + number // 50): 0.5},
            "gpus": [{"index": 1, "name": "A", "memory_used_bytes": number}],
        }  # fmt: skip


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "system.jsonl"


def test_a_short_job_has_a_row_for_each_second(path: Path) -> None:
    log = SystemLog(str(path), sampler := Counted(), 8)  # type: ignore[arg-type]
    for sampler.second in range(1, 8):
        log.tick()
    assert [row["epoch_ns"] for row in rows(path)] == [n * 10**9 for n in range(1, 8)]


def test_a_full_file_has_the_mean_of_each_two_rows(path: Path) -> None:
    log = SystemLog(str(path), sampler := Counted(), 8)  # type: ignore[arg-type]
    for sampler.second in range(1, 9):
        log.tick()
    assert rows(path)[0] == {
        "epoch_ns": 2 * 10**9, "cores": 2, "system_cpu_ratio": 0.0015, "job_rss_bytes": 1500,
        "core_wait_ratio": {"7": 0.0015, "100": 0.5},
        "gpus": [{"index": 1, "name": "A", "memory_used_bytes": 2}],
    }  # fmt: skip
    assert len(rows(path)) == 4


def test_a_long_job_stays_small_and_its_mean_stays(path: Path) -> None:
    sampler = Counted()
    log = SystemLog(str(path), sampler, 64)  # type: ignore[arg-type]
    for sampler.second in range(10_000):
        log.tick()
    found = rows(path)
    assert 32 <= len(found) < 64
    assert {row["cores"] for row in found} == {2}
    assert sampler.taken < 64 + 8 * 32 + 1  # half as often with each halving: it costs less, too
    mean = sum(row["system_cpu_ratio"] for row in found) / len(found)
    assert mean == pytest.approx(5, rel=0.05)
