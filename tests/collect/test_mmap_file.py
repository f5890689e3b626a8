"""Step records through shared memory: what a reader finds after any kind of end, and where it is not used."""

import collections
import errno
import gc
import itertools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from stepscope.collect import fields
from stepscope.collect import mmap_file as mapping
from stepscope.collect.launch import launch
from stepscope.collect.mmap_file import CHUNKS, COUNT_OFFSET, MappedFile, file_system, reserves
from stepscope.collect.recorder import BinaryFile, Recorder
from stepscope.run_format.options import RecordingOptions

from ..small_disk import mounted
from .conftest import HEADER, RECORD, Step, read_recording, steps_of

MAGIC = b"STEPSCOPE-STEPS1"
IN_A_CHUNK = CHUNKS[0] // RECORD.size


def a_record(number: int) -> bytes:
    return RECORD.pack(number, 10 * number + 1, 10 * number + 9, -1, 1, 2, 3, 0, 0, -1, 1, 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    if not reserves(str(tmp_path)):
        pytest.skip(f"needs a file system that reserves blocks, not {file_system(str(tmp_path))}")
    if fields.compiled is None:
        pytest.skip("needs the compiled writer")
    return tmp_path / "steps.bin"


@pytest.fixture
def mapped(path: Path) -> Iterator[MappedFile]:
    file = MappedFile(str(path), HEADER.pack(MAGIC, HEADER.size, RECORD.size, 1, 2, 0), RECORD.size)
    yield file
    with suppress(OSError):
        file.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 400 kB: one whole piece of a file fits, a second does not."""
    with mounted(tmp_path / "small disk", "400k") as disk:
        yield disk


def write_forever(write: Callable[[bytes], None]) -> None:
    for number in itertools.count():
        write(a_record(number))


def numbers(steps: list[Step]) -> list[int]:
    return [step.step for step in steps]


def test_every_record_is_there_at_once_and_the_file_is_cut_at_the_end(mapped: MappedFile, path: Path) -> None:
    write = mapped.writer()
    for number in range(3):
        write(a_record(number))
        assert numbers(steps_of(path)) == list(range(number + 1))
    assert path.stat().st_size == HEADER.size + CHUNKS[0]
    mapped.close()
    mapped.close()
    assert path.stat().st_size == HEADER.size + 3 * RECORD.size
    assert numbers(steps_of(path)) == [0, 1, 2]
    with pytest.raises(ValueError, match="closed"):
        write(a_record(3))


def test_a_file_grows_past_its_first_piece_and_its_blocks_are_reserved(mapped: MappedFile, path: Path) -> None:
    write, many = mapped.writer(), 2 * IN_A_CHUNK + 5
    for number in range(many):
        write(a_record(number))
    assert path.stat().st_size == HEADER.size + 3 * CHUNKS[0]
    assert path.stat().st_blocks * 512 >= 3 * CHUNKS[0]
    assert numbers(steps_of(path)) == list(range(many))
    mapped.close()
    assert numbers(steps_of(path)) == list(range(many))


def test_a_torn_record_is_not_counted(mapped: MappedFile, path: Path) -> None:
    write = mapped.writer()
    write(a_record(0))
    with open(path, "r+b") as file:
        file.seek(HEADER.size + RECORD.size)
        file.write(a_record(1)[:40])
    assert numbers(steps_of(path)) == [0]
    write(a_record(1))
    assert numbers(steps_of(path)) == [0, 1]


def test_the_count_is_where_the_format_says(mapped: MappedFile, path: Path) -> None:
    mapped.writer()(a_record(0))
    assert path.read_bytes()[COUNT_OFFSET : COUNT_OFFSET + 8] == (1).to_bytes(8, "little")


def test_a_forked_child_that_closes_leaves_the_file_to_its_parent(mapped: MappedFile, path: Path) -> None:
    write = mapped.writer()
    write(a_record(0))
    child = os.fork()
    if child == 0:
        try:
            mapped.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert path.stat().st_size == HEADER.size + CHUNKS[0]
    write(a_record(1))
    assert numbers(steps_of(path)) == [0, 1]


def test_the_job_may_close_all_descriptors_and_use_their_numbers(path: Path) -> None:
    own, many = path.parent / "own", IN_A_CHUNK + 5
    child = os.fork()  # closing all descriptors would end the test
    if child == 0:
        try:
            os.closerange(3, 256)
            files = [os.open(own, os.O_WRONLY | os.O_CREAT) for _ in range(12)]
            again = MappedFile(str(path), HEADER.pack(MAGIC, HEADER.size, RECORD.size, 1, 2, 0), RECORD.size)
            for number in range(many):
                again.writer()(a_record(number))
            again.close()
            for file in files:
                os.close(file)
        except BaseException:  # noqa: BLE001 - a child must not go on as the test
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert own.read_bytes() == b""
    assert numbers(steps_of(path)) == list(range(many))


@pytest.mark.parametrize("left", [0, 2000])
def test_a_file_that_is_cut_by_somebody_else_is_an_error(mapped: MappedFile, path: Path, left: int) -> None:
    write = mapped.writer()
    write(a_record(0))
    os.truncate(path, left)
    with pytest.raises(OSError, match="cut short"):
        collections.deque((write(a_record(1)) for _ in range(100)), maxlen=0)


def test_a_file_that_took_the_place_of_ours_is_left_alone(mapped: MappedFile, path: Path) -> None:
    write = mapped.writer()
    (path.parent / "own").write_bytes(b"mine")
    os.replace(path.parent / "own", path)
    with pytest.raises(OSError, match="place"):
        write_forever(write)
    with pytest.raises(OSError, match="place"):
        mapped.close()
    assert path.read_bytes() == b"mine"


def test_a_writer_in_a_cycle_is_freed_with_its_memory(path: Path) -> None:
    def maps() -> int:
        return Path("/proc/self/maps").read_text().count(str(path))

    file = MappedFile(str(path), HEADER.pack(MAGIC, HEADER.size, RECORD.size, 1, 2, 0), RECORD.size)
    file.writer()(a_record(0))
    assert maps() >= 1
    file.close()
    del file
    gc.collect()
    assert maps() == 0


def test_a_record_of_another_size_is_refused(mapped: MappedFile, path: Path) -> None:
    write = mapped.writer()
    with pytest.raises((ValueError, IndexError), match=r"size|record"):
        write(b"short")
    write(a_record(0))
    assert numbers(steps_of(path)) == [0]


def test_a_full_disk_is_an_error_and_every_step_before_it_is_readable(small_disk: Path) -> None:
    recorder = Recorder(str(small_disk / "rank-00000.pid-1"))
    steps = recorder.open_mapped("steps.bin", MAGIC, RECORD.size)
    assert isinstance(steps, MappedFile)
    with pytest.raises(OSError, match="No space"):
        write_forever(steps.writer())
    written = len(steps_of(Path(recorder.directory) / "steps.bin"))
    assert IN_A_CHUNK < written < 2 * IN_A_CHUNK
    file = Path(recorder.directory) / "steps.bin"
    assert numbers(steps_of(file)) == list(range(written))
    recorder.close()
    assert numbers(steps_of(file)) == list(range(written))


def test_a_changed_directory_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mapped: MappedFile, path: Path
) -> None:
    write = mapped.writer()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for number in range(IN_A_CHUNK + 5):
        write(a_record(number))
    mapped.close()
    assert len(steps_of(path)) == IN_A_CHUNK + 5


def test_a_deleted_file_takes_what_it_has_room_for(mapped: MappedFile, path: Path) -> None:
    write = mapped.writer()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        write_forever(write)
    with pytest.raises(FileNotFoundError):
        mapped.close()
    assert not path.exists()


MOUNTS = r"""
21 1 8:1 / / rw - ext4 /dev/vda rw
22 21 0:5 / /data rw shared:1 - nfs4 server:/data rw
23 22 0:6 / /data/scratch rw - xfs /dev/vdb rw
24 21 0:7 / /with\040space rw - fuse.sshfs host: rw
25 21 0:8 / /over rw - btrfs /dev/vdc rw
26 25 0:9 / /over rw - tmpfs tmpfs rw
""".lstrip()


@pytest.mark.parametrize(
    ("directory", "found", "used"),
    [
        ("/home/me/run", "ext4", True),
        ("/data", "nfs4", False),
        ("/data/run", "nfs4", False),
        ("/database/run", "ext4", True),
        ("/data/scratch/run", "xfs", True),
        ("/with space/run", "fuse.sshfs", False),
        ("/over/run", "tmpfs", True),
    ],
)
def test_the_map_is_used_only_where_a_reservation_holds(tmp_path: Path, directory: str, found: str, used: bool) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert (file_system(directory, str(mounts)), reserves(directory, str(mounts))) == (found, used)


def test_without_a_list_of_mounts_nobody_can_tell(tmp_path: Path) -> None:
    (tmp_path / "odd").write_text("not a mount\n")
    assert not reserves("/", str(tmp_path / "none"))
    assert not reserves("/", str(tmp_path / "odd"))


@pytest.mark.parametrize("why", ["far file system", "no posix_fallocate", "not supported", "no compiled writer"])
def test_elsewhere_records_are_written_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    steps: dict[str, Callable[[], None]] = {
        "far file system": lambda: monkeypatch.setattr("stepscope.collect.mmap_file._RESERVING", frozenset()),
        "no compiled writer": lambda: monkeypatch.setattr(mapping, "compiled", None),
        "no posix_fallocate": lambda: monkeypatch.delattr(os, "posix_fallocate"),
        "not supported": lambda: monkeypatch.setattr(os, "posix_fallocate", refuse),
    }
    steps[why]()
    recorder = Recorder(str(tmp_path / "rank-00000.pid-1"))
    file = recorder.open_mapped("steps.bin", MAGIC, RECORD.size)
    assert isinstance(file, BinaryFile)
    write = file.writer()
    write(a_record(0))
    write(a_record(1))
    recorder.close()
    content = (Path(recorder.directory) / "steps.bin").read_bytes()
    assert (len(content), content[COUNT_OFFSET : COUNT_OFFSET + 8]) == (HEADER.size + 2 * RECORD.size, bytes(8))
    assert numbers(steps_of(Path(recorder.directory) / "steps.bin")) == [0, 1]


LOOP = """
import os, signal, torch
torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    model(torch.ones(4, 8)).pow(2).mean().backward()
    optimizer.step()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_job_killed_in_its_second_piece_leaves_every_step(path: Path, tmp_path: Path) -> None:
    count, out = IN_A_CHUNK + 20, tmp_path / "out"
    job = LOOP.replace("STEPS", str(count))
    end = launch([sys.executable, "-c", job], str(out), RecordingOptions())
    assert end.signal == signal.SIGKILL
    process = read_recording(out, end).only
    assert numbers(process.steps) == list(range(count))
    assert (process.folder / "steps.bin").stat().st_size == HEADER.size + 2 * CHUNKS[0]
