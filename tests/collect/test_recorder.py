"""The files of one process: what a reader finds after any kind of end."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepscope.collect.notes import NOTES_SIZE, leave_note
from stepscope.collect.outbox import Outbox
from stepscope.collect.recorder import BinaryFile, Recorder, append_line, clock_reading

from ..small_disk import mounted
from .conftest import HEADER, lines_of


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    made = Recorder(str(tmp_path / "rank-00000.pid-1"))
    yield made
    made.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB."""
    with mounted(tmp_path / "disk", "64k") as disk:
        yield disk


def fill(disk: Path) -> None:
    with open(disk / "ballast", "wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(b"x" * 4096)
        except OSError:
            return


def put_all(outbox: Outbox, rows: int) -> None:
    for _ in range(rows):
        outbox.put("steps.bin", b"x")


def write_forever(file: BinaryFile) -> None:
    while True:
        file.write(b"y" * 88)


def test_a_binary_file_has_its_header_and_every_record_at_once(recorder: Recorder) -> None:
    file = recorder.open_binary("steps.bin", b"STEPSCOPE-STEPS1", 4)
    file.write(b"abcd")
    file.write(b"efgh")
    content = (Path(recorder.directory) / "steps.bin").read_bytes()
    assert HEADER.unpack_from(content) == (
        b"STEPSCOPE-STEPS1", HEADER.size, 4, recorder.epoch_ns, recorder.monotonic_ns, 0,
    )  # fmt: skip
    assert content[HEADER.size :] == b"abcdefgh"


def test_both_clocks_are_read_together(recorder: Recorder) -> None:
    def drift() -> int:
        return abs((time.time_ns() - recorder.epoch_ns) - (time.monotonic_ns() - recorder.monotonic_ns))

    assert min(drift() for _ in range(100)) < 5_000_000  # the test itself may be held up between two clocks


def test_a_reading_of_the_clocks_says_how_long_it_took() -> None:
    before = time.monotonic_ns()
    reading = clock_reading()
    assert list(reading) == ["epoch_ns", "monotonic_ns", "took_ns"]
    assert 0 <= reading["took_ns"] <= time.monotonic_ns() - before
    assert before <= reading["monotonic_ns"] <= time.monotonic_ns()


def test_lines_are_whole_and_in_order(recorder: Recorder) -> None:
    recorder.append("facts.jsonl", {"kind": "a"})
    recorder.append("facts.jsonl", {"kind": "b", "path": Path("/x")})
    assert lines_of(Path(recorder.directory) / "facts.jsonl") == [{"kind": "a"}, {"kind": "b", "path": "/x"}]


def test_a_file_written_whole_replaces_the_old_one(recorder: Recorder) -> None:
    recorder.write_json("process.json", {"rank": 0})
    recorder.write_json("process.json", {"rank": 1})
    folder = Path(recorder.directory)
    assert json.loads((folder / "process.json").read_text()) == {"rank": 1}
    assert sorted(path.name for path in folder.iterdir()) == ["notes.jsonl", "process.json"]


def test_notes_lie_in_blanks_that_were_there_before(recorder: Recorder) -> None:
    notes = Path(recorder.directory) / "notes.jsonl"
    assert (notes.stat().st_size, notes.read_text().strip()) == (NOTES_SIZE, "")
    recorder.note("lines", ValueError("no frames"))
    recorder.note("trace", "x" * 10_000)
    assert notes.stat().st_size == NOTES_SIZE
    assert [(row["what"], row["why"][:20]) for row in lines_of(notes)] == [
        ("lines", "ValueError: no frame"),
        ("trace", "x" * 20),
    ]


def test_a_note_never_raises(recorder: Recorder) -> None:
    recorder.close()
    recorder.note("steps", "after the end")
    leave_note("/nowhere/at/all", "steps", "no folder")


def test_nothing_is_written_after_close(recorder: Recorder) -> None:
    file = recorder.open_binary("steps.bin", b"STEPSCOPE-STEPS1", 4)
    recorder.close()
    recorder.close()
    writes: list[Callable[[], None]] = [lambda: file.write(b"abcd"), lambda: recorder.append("facts.jsonl", {})]
    for write in writes:
        with pytest.raises(ValueError, match="closed"):
            write()


def test_a_full_disk_still_takes_notes_and_keeps_whole_records(small_disk: Path) -> None:
    recorder = Recorder(str(small_disk / "rank-00000.pid-1"))
    steps = recorder.open_binary("steps.bin", b"STEPSCOPE-STEPS1", 88)
    fill(small_disk)
    with pytest.raises(OSError, match="No space") as failure:
        write_forever(steps)
    recorder.note("steps", failure.value)
    recorder.close()
    assert [row["what"] for row in lines_of(Path(recorder.directory) / "notes.jsonl")] == ["steps"]


def test_the_same_note_is_written_once_with_how_often_it_came(recorder: Recorder) -> None:
    for _ in range(300):
        recorder.note("device step times", ValueError("lost"))
    recorder.note("trace", "another")
    recorder.close()
    rows = lines_of(Path(recorder.directory) / "notes.jsonl")
    assert [(row["what"], row["times"]) for row in rows] == [("device step times", 300), ("trace", 1)]


def test_notes_of_processes_without_a_folder_have_an_end(tmp_path: Path) -> None:
    for number in range(3000):
        leave_note(str(tmp_path), f"loading of process {number}", "no room")
    assert (tmp_path / "notes.jsonl").stat().st_size < 200_000


def test_no_file_stays_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    recorder = Recorder(str(tmp_path / "rank-00000.pid-1"))
    recorder.append("facts.jsonl", {})
    recorder.open_binary("lines.bin", b"STEPSCOPE-LINES1", 4).write(b"abcd")
    recorder.open_mapped("steps.bin", b"STEPSCOPE-STEPS1", 8).writer()(b"abcdefgh")
    assert os.listdir("/proc/self/fd") == before
    recorder.close()


def test_what_is_written_is_its_owners_alone(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "rank-00000.pid-1"))
    recorder.append("facts.jsonl", {})
    recorder.open_mapped("steps.bin", b"STEPSCOPE-STEPS1", 8)
    recorder.open_binary("lines.bin", b"STEPSCOPE-LINES1", 4)
    recorder.write_json("process.json", {})
    recorder.close()
    assert {path.stat().st_mode & 0o077 for path in [tmp_path / "rank-00000.pid-1", *tmp_path.rglob("*.*")]} == {0}


def test_a_link_in_the_place_of_a_file_is_not_followed(recorder: Recorder, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("mine")
    (Path(recorder.directory) / "facts.jsonl").symlink_to(own)
    (Path(recorder.directory) / "steps.bin").symlink_to(own)
    with pytest.raises(OSError, match="symbolic links"):
        recorder.append("facts.jsonl", {})
    with pytest.raises(OSError, match="symbolic links"):
        recorder.open_mapped("steps.bin", b"STEPSCOPE-STEPS1", 8)
    assert own.read_text() == "mine"


def test_a_disk_that_does_not_answer_holds_nobody_up(tmp_path: Path) -> None:
    answers = threading.Event()
    delivered: list[tuple[str, bytes]] = []

    def deliver(path: str, data: bytes) -> None:
        answers.wait(20)
        delivered.append((path, data))

    outbox = Outbox(deliver)
    begin = time.monotonic()
    with pytest.raises(OSError, match="does not answer"):
        put_all(outbox, 100_000)
    assert time.monotonic() - begin < 5
    answers.set()
    outbox.close()
    assert b"".join(data for _, data in delivered) == b"x" * sum(len(data) for _, data in delivered)
    assert sum(len(data) for _, data in delivered) >= 20_000


def test_a_far_disk_has_everything_in_order_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.collect.mmap_file._RESERVING", frozenset())
    monkeypatch.setattr("stepscope.collect.mmap_file._COPYING", frozenset())
    recorder = Recorder(str(tmp_path / "rank-00000.pid-1"))
    write = recorder.open_mapped("steps.bin", b"STEPSCOPE-STEPS1", 8).writer()
    for number in range(1000):
        write(number.to_bytes(8, "little"))
    recorder.close()
    content = (tmp_path / "rank-00000.pid-1" / "steps.bin").read_bytes()[HEADER.size :]
    assert content == b"".join(number.to_bytes(8, "little") for number in range(1000))


def test_a_far_disk_that_is_full_is_an_error_of_the_next_record(tmp_path: Path) -> None:
    def deliver(path: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    outbox = Outbox(deliver)
    outbox.put("steps.bin", b"x")
    outbox.close()
    with pytest.raises(OSError, match="No space"):
        outbox.put("steps.bin", b"x")


def test_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "processes.jsonl"
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            try:
                for _ in range(200):
                    append_line(str(path), {"number": number, "text": "z" * 300})
            finally:
                os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    assert sorted(row["number"] for row in lines_of(path)) == sorted(list(range(4)) * 200)
