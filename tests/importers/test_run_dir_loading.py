"""Spans of the input pipeline from files that were written byte by byte as the format says."""

import struct
from pathlib import Path
from typing import Any

from stepscope.core.run import Run
from stepscope.storage import open_run

from .run_files import EPOCH, TO_EPOCH, json_lines, records, step, told, write_process, write_run

SPAN = struct.Struct("<qqqqiIIHHHBB")
NAME = {"kind": "name", "id": 1, "name": "__main__.Rows", "file": "/d/train.py", "line": 7}
COLUMNS = ("pid", "worker", "loader", "iterator", "batch", "sample", "stage", "name", "start", "end", "cpu", "weight")
FETCH, SAMPLE, COLLATE, WAIT, READ = 2, 3, 4, 9, 14


def span(
    stage: int, start: int, *, wall: int = 10, cpu: int = -1, sample: int = -1, iterator: int = 0, **more: int
) -> bytes:
    """A span of batch 0."""
    return SPAN.pack(
        start, wall, cpu, sample, 0, more.get("name", 0), more.get("count", 0), more.get("weight", 1), iterator, 0,
        more.get("flags", 0), stage,
    )  # fmt: skip


def write_spans(run: Path, name: str, lines: list[dict[str, Any]], *rows: bytes) -> Path:
    (run / "loading").mkdir(exist_ok=True)
    (run / "loading" / f"{name}.jsonl").write_text(json_lines(*lines))
    path = run / "loading" / f"{name}.bin"
    path.write_bytes(records(b"STEPSCOPE-LOADS1", SPAN.size, *rows))
    return path


def a_job(tmp_path: Path) -> Path:
    """A process of rank 1 with one loader and two workers, of which the process id of one was used before."""
    run = write_run(tmp_path / "run")
    write_process(run, step(0, 100, 200), rank=1, pid=50)
    iterator = {"kind": "iterator", "iterator": 1, "loader": 3, "seed": 77, "workers": 2, "pids": [60, 61]}
    write_spans(run, "main-50-9", [{"kind": "main", "pid": 50, "host": "n0"}, iterator], span(WAIT, 100, iterator=1))
    about = {"kind": "worker", "worker": 1, "workers": 2, "host": "n0"}
    blank = bytes(SPAN.size)
    write_spans(
        run, "worker-61-9", [{**about, "pid": 61, "seed": 77}, NAME],
        span(SAMPLE, 110, cpu=9, sample=5, name=1, weight=3), blank,
        span(FETCH, 105, wall=20, name=1, iterator=1), blank,
    )  # fmt: skip
    write_spans(run, "worker-61-5", [{**about, "pid": 61, "seed": 12}], span(FETCH, 90))
    return run


def rows_of(run: Run) -> list[tuple[object, ...]]:
    return run.optional("loader_spans").select(COLUMNS).rows()


def test_spans_of_a_process_and_its_workers(tmp_path: Path) -> None:
    run = open_run(a_job(tmp_path))
    at = TO_EPOCH
    assert run.optional("loader_spans")["rank"].unique().to_list() == [1]
    assert rows_of(run) == [
        ("50", None, 3, 1, 0, None, "wait", None, at + 100, at + 110, None, 1),
        ("61", 1, 3, 1, 0, 5, "sample", "__main__.Rows", at + 110, at + 120, 9, 3),
        ("61", 1, None, None, 0, None, "fetch", "__main__.Rows", at + 105, at + 125, None, 1),
    ]


def test_damage_costs_the_damaged_span_only(tmp_path: Path) -> None:
    path = a_job(tmp_path)
    file = path / "loading" / "main-50-9.bin"
    file.write_bytes(file.read_bytes() + span(WAIT, 5, wall=-1) + span(99, 5) + span(WAIT, 6)[:30])
    run = open_run(path)
    assert len(rows_of(run)) == 3
    assert told(run) == {"span of loading of a kind that this version does not know, or damaged: left out": 2}


def test_a_process_that_trained_nothing_is_counted(tmp_path: Path) -> None:
    path = a_job(tmp_path)
    write_spans(path, "main-51-9", [{"kind": "main", "pid": 51, "host": "n0"}], span(FETCH, 5))
    run = open_run(path)
    assert len(rows_of(run)) == 3
    assert list(told(run)) == [
        "process that read batches and made no training step: its spans of loading were left out"
    ]


def test_the_same_process_id_on_another_host_is_another_process(tmp_path: Path) -> None:
    path = a_job(tmp_path)
    write_spans(path, "main-50-3", [{"kind": "main", "pid": 50, "host": "elsewhere"}], span(FETCH, 5))
    assert len(rows_of(open_run(path))) == 3


def test_files_of_one_host_are_on_one_clock_whatever_their_headers_say(tmp_path: Path) -> None:
    """The wall clock was set back by 9 ns while the job ran: no worker did anything earlier for it."""
    path = a_job(tmp_path)
    file = path / "loading" / "worker-61-9.bin"
    content = bytearray(file.read_bytes())
    struct.pack_into("<q", content, 24, EPOCH - 9)
    file.write_bytes(content)
    assert [row[-4:-3] for row in rows_of(open_run(path))] == [(TO_EPOCH + start,) for start in (100, 110, 105)]


def test_readings_of_both_clocks(tmp_path: Path) -> None:
    path = a_job(tmp_path)
    reading = {"epoch_ns": TO_EPOCH + 151, "monotonic_ns": 150, "took_ns": 7}
    folder = path / "rank-00001.pid-50"
    broken = [{"epoch_ns": "noon", "monotonic_ns": 5}, 3]
    (folder / "windows.jsonl").write_text(json_lines({"window": 0, "clocks": [reading, *broken]}, {"window": 1}))
    side = path / "loading" / "worker-61-9.jsonl"
    later = {"kind": "clock", "epoch_ns": TO_EPOCH + 180, "monotonic_ns": 190}
    side.write_text(side.read_text() + json_lines(later))
    run = open_run(path)
    assert run.optional("clock_readings").rows() == [
        (1, "50", "start", EPOCH, 0, None),
        (1, "50", "window 0", TO_EPOCH + 150, 1, 4),
        (1, "50", "worker 1", TO_EPOCH + 190, -10, None),
    ]
    assert run.optional("skipped").is_empty()


def test_without_any_reading_of_the_clocks_spans_are_left_out(tmp_path: Path) -> None:
    path = a_job(tmp_path)
    folder = path / "rank-00001.pid-50"
    (folder / "process.json").write_text(json_lines({"rank": 1, "pid": 50}))
    (folder / "steps.bin").unlink()
    run = open_run(path)
    assert rows_of(run) == []
    assert "no reading of the clocks in steps.bin and process.json: spans of loading left out" in told(run)


def test_what_is_noted_of_reads_fetches_transforms_and_batches(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    write_process(run, step(0, 100, 200), rank=1, pid=50)
    iterator = {"kind": "iterator", "iterator": 1, "loader": 3, "seed": 77, "workers": 1, "pids": [61]}
    write_spans(run, "main-50-9", [{"kind": "main", "pid": 50, "host": "n0"}, iterator])
    noted: list[dict[str, Any]] = [
        {"kind": "sizes", "sizes": [[1, 48, 3], [9, 1, 1], [1, -1, 3], [1, 2], "no", [1, 48, 3, 192], [1, 4, 4, -1]]},
        {"kind": "sizes", "sizes": 5},
        {"kind": "batch", "tensors": [["torch.uint8", 12], ["torch.int64", None], 3]},
    ]
    write_spans(
        run, "worker-61-9", [{"kind": "worker", "worker": 0, "pid": 61, "seed": 77, "host": "n0"}, NAME, *noted],
        span(COLLATE, 104, sample=33), span(FETCH, 105, cpu=20, sample=8), span(READ, 106, sample=4_000_000_000),
        span(SAMPLE, 107, sample=5),
    )  # fmt: skip
    found = open_run(run)
    spans = found.optional("loader_spans").select("stage", "sample", "process_cpu", "core_wait", "read_file")
    assert spans.rows() == [
        ("collate", None, 33, None, None), ("fetch", None, None, 8, None), ("read", None, None, None, 4_000_000_000),
        ("sample", 5, None, None, None),
    ]  # fmt: skip
    sizes = found.optional("transform_sizes").select(
        "rank", "pid", "loader", "name", "line", "before", "after", "bytes"
    )
    known = (1, "61", 3, "__main__.Rows", 7)
    assert sizes.rows() == [(*known, 48, 3, None), (*known, 48, 3, 192), (*known, 4, 4, None)]
    tensors = found.optional("batch_tensors").select("rank", "pid", "loader", "worker", "type", "bytes")
    assert tensors.rows() == [(1, "61", 3, 0, "torch.uint8", 12)]


def test_source_lines_of_a_process_and_its_workers_are_kept_once(tmp_path: Path) -> None:
    path = a_job(tmp_path)
    first = {"file": "/d/train.py", "first": 6, "lines": ["def load(path):", "    return open(path)"]}
    (path / "rank-00001.pid-50" / "sources.jsonl").write_text(json_lines(first, {"file": None, "first": 1}))
    again = {"kind": "source", "file": "/d/train.py", "first": 7, "lines": ["    return open(path)", ""]}
    about = {"kind": "worker", "worker": 1, "workers": 2, "host": "n0", "pid": 61, "seed": 77}
    write_spans(path, "worker-61-9", [about, NAME, again], span(FETCH, 105, wall=20))
    run = open_run(path)
    assert run.optional("sources").rows() == [
        (1, "50", "/d/train.py", 6, "def load(path):"),
        (1, "50", "/d/train.py", 7, "    return open(path)"),
        (1, "61", "/d/train.py", 8, ""),
    ]
    assert told(run)["source lines without a file or a number: left out"] == 1
