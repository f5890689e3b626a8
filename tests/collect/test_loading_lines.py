"""The line sampler of a DataLoader worker, without a DataLoader."""

import os
import sys
import time
from pathlib import Path

import pytest

from stepscope.collect.dataloader import worker_lines
from stepscope.collect.dataloader.batch_recorder import BatchRecorder
from stepscope.collect.dataloader.spans import SpanFile
from stepscope.collect.dataloader.worker_lines import LINES_SUFFIX, start
from stepscope.collect.mmap_file import reserves
from stepscope.core.importing import Sink
from stepscope.importers.run_dir.clocks import Clock
from stepscope.importers.run_dir.stacks import add_worker_stacks

pytestmark = pytest.mark.slow

HZ = 100


@pytest.fixture
def recorder(tmp_path: Path) -> BatchRecorder:
    if not reserves(str(tmp_path)):
        pytest.skip("needs a file system that reserves blocks")
    return BatchRecorder(SpanFile(str(tmp_path / "worker-1-2"), {"kind": "worker"}), 0)


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100))


def fetch(seconds: float) -> None:
    spin(seconds)


def rest(seconds: float) -> None:
    """What the worker does between its fetches."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100))


def read(recorder: BatchRecorder) -> list[tuple[str, int]]:
    """Function and weight of every sample."""
    sink, reasons = Sink(), list[str]()
    folder = Path(recorder.spans.path + LINES_SUFFIX)
    add_worker_stacks(
        folder, Clock(0, "0", 0), "1", 0, 0, lambda reason, count: reasons.append(reason) if count else None, sink
    )
    assert reasons == []
    stacks = sink.run("samples").optional("worker_stacks")
    assert set(map(len, stacks["frames"])) <= {1}
    return [(row["function"], row["weight"]) for row in stacks.iter_rows(named=True)]


@pytest.mark.alone
def test_only_what_the_fetch_calls_is_sampled(recorder: BatchRecorder, tmp_path: Path) -> None:
    interval = sys.getswitchinterval()
    sampler = start(recorder, str(tmp_path), HZ, fetch.__code__)
    rounds, fetching = 6, 0
    for _ in range(rounds):
        rest(0.1)
        begin = time.monotonic_ns()
        fetch(0.1)
        fetching += time.monotonic_ns() - begin
    sampler.close()
    found = read(recorder)
    assert {function for function, _ in found} == {"spin"}
    slot = 1e9 / HZ  # a look speaks for whole slots: it may be one off where a fetch begins, and where it ends
    assert sum(weight for _, weight in found) == pytest.approx(fetching, abs=2 * slot * rounds)
    assert sys.getswitchinterval() == interval
    assert not (tmp_path / "notes.jsonl").exists()


def test_it_looks_more_rarely_the_longer_it_runs(
    recorder: BatchRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_lines, "HALVED_AFTER", 1)
    sampler = start(recorder, str(tmp_path), HZ, fetch.__code__)
    fetch(2.5)  # it writes every second
    sampler.close()
    weights = [weight for _, weight in read(recorder)]
    assert min(weights[:3]) < 2e9 / HZ * 1.5
    assert weights[-1] >= 3.9e9 / HZ


def test_it_looks_more_rarely_where_looking_takes_much(recorder: BatchRecorder, tmp_path: Path) -> None:
    recorder.spans.share = 0.001
    sampler = start(recorder, str(tmp_path), 200, fetch.__code__)
    fetch(2.5)  # 200 looks take more than 0.2 % of it
    sampler.close()
    weights = [weight for _, weight in read(recorder)]
    assert weights[-1] >= 2e9 / 200
    assert sampler.slot_ns > 1e9 / 200


def test_a_child_of_the_worker_writes_nothing(recorder: BatchRecorder, tmp_path: Path) -> None:
    sampler = start(recorder, str(tmp_path), HZ, fetch.__code__)
    fetch(0.1)
    pid = os.fork()
    if not pid:
        fetch(0.2)
        sampler.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    sampler.close()
    assert sum(weight for _, weight in read(recorder)) < 0.4e9


def test_a_folder_that_cannot_be_made_is_noted(recorder: BatchRecorder, tmp_path: Path) -> None:
    from stepscope.collect.dataloader.process import Loading

    Path(recorder.spans.path + LINES_SUFFIX).touch()
    loading = Loading(str(tmp_path), lambda loader: None, 0.1, HZ)
    assert loading.sample_lines(recorder, fetch.__code__) is None
    assert "lines of the loading" in (tmp_path / "notes.jsonl").read_text()
    assert Loading(str(tmp_path), lambda loader: None, 0.1).sample_lines(recorder, fetch.__code__) is None
