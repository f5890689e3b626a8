"""Run folders for tests: written byte by byte as the format says."""

import json
import struct
from pathlib import Path
from typing import Any

from stepscope.core.run import Run

EPOCH, MONOTONIC = 1_790_000_000_000_000_000, 5_000_000_000
TO_EPOCH = EPOCH - MONOTONIC
HEADER = struct.Struct("<16sIIqq24x")
STEP = struct.Struct("<qqqqqqqqqqiI")
LINE = struct.Struct("<qqqIHH")
DEVICE_STEP = struct.Struct("<qq")

RUN = {"format": "stepscope-run", "version": 1, "stepscope": "0.1.0", "command": ["python", "train.py"], "cwd": "/d"}
END: dict[str, Any] = {"exit_code": 0, "signal": None, "ended_epoch_ns": EPOCH, "wall_ns": 7, "not_recorded": []}


def step(number: int, start: int, end: int, *, wait: int = 10, samples: int = 8, gc: int = 0, flags: int = 0) -> bytes:
    """A step with 1 ns of forward, 2 of backward and 3 of optimizer."""
    return STEP.pack(number, start, end, wait, 1, 2, 3, 0, gc, samples, 1, flags)


def records(magic: bytes, size: int, *rows: bytes) -> bytes:
    return HEADER.pack(magic, HEADER.size, size, EPOCH, MONOTONIC) + b"".join(rows)


def steps_file(*rows: bytes) -> bytes:
    return records(b"STEPSCOPE-STEPS1", STEP.size, *rows)


def json_lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_run(path: Path, *, run: dict[str, Any] | None = RUN, end: dict[str, Any] | None = END) -> Path:
    path.mkdir(exist_ok=True)
    for name, content in (("run.json", run), ("end.json", end)):
        if content is not None:
            (path / name).write_text(json.dumps(content))
    return path


def write_process(path: Path, *rows: bytes, rank: int = 0, pid: int = 4711, **about: Any) -> Path:
    folder = path / f"rank-{rank:05}.pid-{pid}"
    folder.mkdir(parents=True)
    clock = {"epoch_ns": EPOCH, "monotonic_ns": MONOTONIC}
    known = {"rank": rank, "rank_source": "RANK", "world_size": 2, "pid": pid, "host": "n0", "python": "3.12.1",
             "torch": "2.13.0", "clock": clock, "probe": "compiled", "probe_step_ns": 900,
             **about}  # fmt: skip
    (folder / "process.json").write_text(json.dumps(known))
    (folder / "steps.bin").write_bytes(steps_file(*rows))
    return folder


def told(run: Run) -> dict[str, int]:
    return dict(run.optional("skipped").select("reason", "count").rows())


def meta(run: Run) -> dict[str, str]:
    return dict(run.optional("meta").select("key", "value").rows())
