"""Folders of small, real traces."""

import gzip
import json
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.storage.cache import Cache

WriteRanks = Callable[..., Path]


def write_rank(path: Path, *, rank: int | None, at: float = 0, steps: int = 3, operators: int = 6) -> Path:
    """Steps of 1 ms on a GPU; each operator launches a kernel, and rank 1 of each eight waits for its loader."""
    events: list[dict[str, Any]] = []
    wait = 300.0 if (rank or 0) % 8 == 1 else 20.0

    def event(name: str, category: str, start: float, length: float, tid: int = 1, **args: object) -> None:
        events.append({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": at + start,
                       "dur": length, "args": args})  # fmt: skip

    for step in range(steps):
        start = 1000.0 * step
        event(f"ProfilerStep#{step}", "user_annotation", start, 1000)
        event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation", start, wait)
        for number in range(operators):
            begin, link = start + wait + 100 * number, 100 * step + number + 1
            event(f"aten::op{number}", "cpu_op", begin, 80, **{"External id": link})
            event("cudaLaunchKernel", "cuda_runtime", begin + 10, 5, correlation=link)
            event(f"kernel{number}", "kernel", begin + 20, 70, 7, device=0, stream=7, correlation=link)
    header = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 8}}
    properties = [{"id": 0, "name": "G", "totalGlobalMem": 2**34}]
    text = json.dumps({"schemaVersion": 1, "deviceProperties": properties, **header, "traceEvents": events})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """A cache that keeps the smallest traces too."""
    return Cache(folder=tmp_path / "cache", smallest=0)


@pytest.fixture
def four_ranks(tmp_path: Path) -> Path:
    """A folder with four ranks, one of them packed, and one more file that is no trace."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in range(4):
        write_rank(folder / f"worker{rank}.json{'.gz' if rank == 2 else ''}", rank=rank)
    (folder / "notes.json").write_text('{"what": "something else"}')
    return folder


@pytest.fixture
def ranks_in(tmp_path: Path) -> WriteRanks:
    """Makes a folder below the test's own, with a trace for each file name and rank."""

    def make(folder: str, **ranks: int | None) -> Path:
        path = tmp_path / folder
        path.mkdir(exist_ok=True)
        for name, rank in ranks.items():
            write_rank(path / f"{name}.json", rank=rank)
        return path

    return make


EPOCH, MONOTONIC = 1_790_000_000_000_000_000, 5_000_000_000
HEADER = struct.Struct("<16sIIqq24x")
STEP = struct.Struct("<qqqqqqqqqqiI")
TRACED = 1


def write_run(path: Path, ranks: Iterable[int], *, host: str) -> Path:
    """A run folder as the launcher of one machine writes it: twelve steps a rank, three of them traced."""
    path.mkdir()
    (path / "run.json").write_text(json.dumps({"format": "stepscope-run", "version": 1, "command": ["train", host]}))
    (path / "end.json").write_text(json.dumps({"exit_code": 0, "signal": None}))
    for rank in ranks:
        folder = path / f"rank-{rank:05}.pid-{4000 + rank}"
        folder.mkdir()
        clock = {"epoch_ns": EPOCH, "monotonic_ns": MONOTONIC}
        about = {"rank": rank, "rank_source": "RANK", "pid": 4000 + rank, "host": host, "torch": "2.13.0"}
        (folder / "process.json").write_text(json.dumps({**about, "clock": clock}))
        rows = [
            STEP.pack(step, 1000 * step, 1000 * step + 900, 10 * (rank + 1), 300, 200, 50, 0, 9, 8, 1,
                      TRACED if 5 <= step < 8 else 0)
            for step in range(1, 13)
        ]  # fmt: skip
        header = HEADER.pack(b"STEPSCOPE-STEPS1", HEADER.size, STEP.size, EPOCH, MONOTONIC)
        (folder / "steps.bin").write_bytes(header + b"".join(rows))
        write_rank(folder / "window-000.json", rank=rank)
        window = {"window": 0, "status": "recorded", "first_step": 5, "last_step": 7, "trace": "window-000.json"}
        (folder / "windows.jsonl").write_text(json.dumps({**window, "start_cost_ns": 7}) + "\n")
    return path


@pytest.fixture
def two_runs(tmp_path: Path) -> tuple[Path, Path]:
    """The run folders of one job on two machines."""
    return write_run(tmp_path / "n0", (0, 1), host="n0"), write_run(tmp_path / "n1", (8, 9), host="n1")


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Waits for something to become true."""
    return _until


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    """No test leaves a process behind, but for those of multiprocessing and of command.py, which last."""
    before = children()
    yield
    _until(lambda: not children() - before)


def children() -> set[int]:
    """Processes that this one started, as far as they still run."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {int(pid) for pid in found if not _is_over(int(pid))}


def _is_over(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text()
    except FileNotFoundError:
        return True
    lasting = "resource_tracker" in command or "warm_command.py" in command
    return not command or lasting  # a process without a command was not waited for yet


def _until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
