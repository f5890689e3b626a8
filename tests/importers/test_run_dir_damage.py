"""Records of steps that were cut off, overwritten or lost: what is still read, and what is told."""

import struct
from pathlib import Path

import pytest

from stepscope.storage import open_run

from .run_files import (
    HEADER,
    STEP,
    json_lines,
    meta,
    records,
    step,
    steps_file,
    told,
    write_process,
    write_run,
)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "steps.bin is empty: not read"),
        (b"short", "steps.bin ends within its header: not read"),
        (bytes(64), "steps.bin is not of the kind that this version reads: not read"),
        (None, "steps.bin is missing"),
    ],
)
def test_a_damaged_step_file_is_named(tmp_path: Path, content: bytes | None, why: str) -> None:
    folder = write_process(write_run(tmp_path / "run"))
    (folder / "windows.jsonl").write_text(json_lines({"window": 0, "status": "failed"}))
    (folder / "steps.bin").unlink()
    if content is not None:
        (folder / "steps.bin").write_bytes(content)
    run = open_run(tmp_path / "run")
    assert meta(run)["damaged"] == f"{folder}/{why}"
    assert meta(run)["no_steps"] == "No step could be read"


def test_a_step_file_that_was_cut_short_is_named(tmp_path: Path) -> None:
    folder = write_process(write_run(tmp_path / "run"))
    content = bytearray(steps_file(*(step(number, 100 * number + 1, 100 * number + 90) for number in range(5))))
    struct.pack_into("<q", content, 40, 5)
    (folder / "steps.bin").write_bytes(content)
    assert "damaged" not in meta(open_run(tmp_path / "run"))
    (folder / "steps.bin").write_bytes(content[: -STEP.size - 3])
    run = open_run(tmp_path / "run")
    assert run.optional("steps").height == 3
    assert meta(run)["damaged"] == f"{folder}/steps.bin is cut short: 3 of its 5 records are left"
    assert "no_steps" not in meta(run)


def test_damaged_records_are_counted(tmp_path: Path) -> None:
    backwards, late_wait, never = step(1, 500, 400), step(2, 500, 505, wait=10), step(3, 0, 505)
    write_process(write_run(tmp_path / "run"), step(0, 1, 100), backwards, late_wait, never)
    run = open_run(tmp_path / "run")
    assert run.optional("steps")["step"].to_list() == [0]
    assert told(run) == {"step whose parts do not add up: left out": 3}


@pytest.mark.parametrize(("counted", "readable"), [(0, 3), (1, 1), (2, 2), (3, 3), (1 << 40, 4)])
def test_the_header_counts_the_steps_of_a_file_made_longer(tmp_path: Path, counted: int, readable: int) -> None:
    folder = write_process(write_run(tmp_path / "run"))
    rows = [step(number, 1, 100) for number in range(3)]
    content = bytearray(steps_file(*rows) + bytes(STEP.size))
    struct.pack_into("<q", content, 40, counted)
    (folder / "steps.bin").write_bytes(content)
    run = open_run(tmp_path / "run")
    assert run.optional("steps")["step"].to_list() == [0, 1, 2][:readable]
    cut_short, unsound = counted > len(rows) + 1, readable > len(rows)
    assert sum(told(run).values()) == cut_short + unsound


@pytest.mark.parametrize(
    "content", [b"", b"short", bytes(64), records(b"STEPSCOPE-OTHER1", 88), records(b"STEPSCOPE-STEPS1", 8)]
)
def test_foreign_step_file_is_not_read(tmp_path: Path, content: bytes) -> None:
    folder = write_process(write_run(tmp_path / "run"))
    (folder / "steps.bin").write_bytes(content)
    run = open_run(tmp_path / "run")
    assert run.optional("steps").is_empty()
    assert any(reason.startswith("steps.bin") for reason in told(run))


def test_kill_at_any_byte_loses_only_the_step_in_flight(tmp_path: Path) -> None:
    rows = [step(number, 1_000 * number + 1, 1_000 * number + 900) for number in range(3)]
    folder = write_process(write_run(tmp_path / "run", end=None), *rows)
    whole = (folder / "steps.bin").read_bytes()
    for size in range(0, len(whole) + 1, 7):
        (folder / "steps.bin").write_bytes(whole[:size])
        run = open_run(tmp_path / "run")
        complete = max(0, size - HEADER.size) // STEP.size
        assert run.optional("steps")["step"].to_list() == list(range(complete))
        assert ("no_steps" in meta(run)) == (complete == 0)
        assert meta(run)["state"].startswith("running")
