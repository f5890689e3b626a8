"""The cache under real processes: several at once, killed or interrupted in the middle, and without room to write."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.core.lazy_tables import LazyTables
from stepscope.storage import cache as caches
from stepscope.storage.cache import Cache
from stepscope.storage.kept import forget_all, kept

from ..command import stepscope
from ..small_disk import mounted

pytestmark = pytest.mark.slow

EVENTS = 3_000
NOBODY = 65534
OPEN = """
import os, sys, time
from pathlib import Path
from stepscope.core import background
from stepscope.core.lazy_tables import LazyTables
from stepscope.storage import cache, entry
cache.SMALLEST = 0
path = Path(sys.argv[1])
"""
SUM = """
tables = cache.tables_of(path, use_cache=True)
print(type(tables).__name__, tables["host"]["start"].sum(), tables["host"]["name"].n_unique(), tables["meta"].height)
"""
BLOCK = """
import functools
calls = 0
def blocking(module, name, at, after=False):
    real = getattr(module, name)
    @functools.wraps(real)
    def blocked(*words, **more):
        global calls
        calls += 1
        done = real(*words, **more) if after else None
        if calls == at:
            print("here", flush=True)
            while not os.path.exists(sys.argv[1] + ".go"):
                time.sleep(0.01)
        return done if after else real(*words, **more)
    setattr(module, name, blocked)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A trace of a few thousand operators."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": f"operator {at % 50}", "pid": 1, "tid": at % 3, "ts": at, "dur": 1}
        for at in range(EVENTS)
    ]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    return file


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """The cache that the processes of a test use."""
    monkeypatch.setenv(caches.VARIABLE, str(tmp_path / "cache"))
    return Cache(folder=tmp_path / "cache", smallest=0)


def started(code: str, path: Path, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", OPEN + code, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def opened(path: Path, **options: object) -> tuple[str, str, str]:
    """Open a trace in a process: the kind of its tables, what they hold, and what was said."""
    process = started(SUM, path, **options)
    out, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    kind, _, held = out.partition(" ")
    return kind, held, said


def left_over(cache: Cache) -> list[str]:
    return [folder.name for folder in cache.entries.glob("unfinished-*")]


def test_several_processes_at_once_and_one_that_clears(path: Path, cache: Cache) -> None:
    rounds = """
while not os.path.exists(sys.argv[1] + ".go"):
    time.sleep(0.001)
seen = set()
for _ in range(25):
    tables = cache.tables_of(path, use_cache=True)
    seen.add((tables["host"]["start"].sum(), tables["host"]["name"].n_unique(), tables["meta"].height))
print(seen)
"""
    clear = """
from stepscope.storage.kept import forget_all
while not os.path.exists(sys.argv[1] + ".go"):
    time.sleep(0.001)
for _ in range(60):
    forget_all(cache.user_cache())
    time.sleep(0.005)
"""
    processes = [started(rounds, path) for _ in range(3)] + [started(clear, path)]
    Path(f"{path}.go").touch()
    answers = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0], answers
    assert len({out for out, _ in answers[:3]}) == 1
    assert all("without the cache" not in said for _, said in answers), answers
    assert opened(path)[0] in ("dict", "LazyTables")
    assert opened(path)[0] == "LazyTables"
    assert len(kept(cache)) == 1


@pytest.mark.parametrize(
    ("point", "is_kept"),
    [
        ('blocking(entry, "_to_disk", 1)', False),
        ('blocking(entry, "_to_disk", 3, after=True)', False),
        ('blocking(entry.json, "dump", 1)', False),
        ('blocking(entry.json, "dump", 1, after=True)', False),
        ('blocking(entry, "_publish", 1)', False),
        ('blocking(entry, "_publish", 1, after=True)', True),
        ('blocking(cache, "remember", 1, after=True)', True),
    ],
)
def test_kill_in_the_middle(path: Path, cache: Cache, point: str, is_kept: bool) -> None:
    writer = started(BLOCK + point + SUM, path)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "here\n"
    writer.kill()
    writer.communicate(timeout=60)
    assert len(kept(cache)) == is_kept
    assert len(left_over(cache)) == (0 if is_kept else 1), "what was killed leaves a folder that is not used"
    kinds, held, said = zip(*(opened(path) for _ in range(2)), strict=True)
    assert kinds == ("LazyTables" if is_kept else "dict", "LazyTables")
    assert len(set(held)) == 1
    assert said == ("", "")
    assert len(kept(cache)) == 1


def test_kill_while_an_entry_is_removed(path: Path, cache: Cache) -> None:
    cache.tables(path)
    clear = "\nfrom stepscope.storage.kept import forget_all\nforget_all(cache.user_cache())\n"
    writer = started(BLOCK + 'blocking(entry.shutil, "rmtree", 1)' + clear, path)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "here\n"
    writer.kill()
    writer.communicate(timeout=60)
    assert kept(cache) == []
    assert [opened(path)[0] for _ in range(2)] == ["dict", "LazyTables"]


def test_clearing_while_an_entry_is_written_is_no_error(path: Path, cache: Cache) -> None:
    writer = started(BLOCK + 'blocking(entry, "_to_disk", 1)' + SUM, path)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "here\n"
    forget_all(cache)
    Path(f"{path}.go").touch()
    out, said = writer.communicate(timeout=60)
    assert (writer.returncode, said) == (0, "")
    assert out.startswith("dict ")
    assert kept(cache) == []
    assert left_over(cache) == []


SLOW = """
real = entry._to_disk
def slow(file):
    with open(sys.argv[1] + ".writing", "a") as writing:
        writing.write("x")
    real(file)
    time.sleep(0.3)
entry._to_disk = slow
"""


def test_interruption_while_the_entry_is_written_beside_the_answer(path: Path, cache: Cache) -> None:
    answer = (
        SLOW + 'with background.awaited():\n    print(cache.tables_of(path, use_cache=True, wait=False)["host"].height)'
    )
    process, writing = started(answer, path), Path(f"{path}.writing")
    _wait_for(writing)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert writing.stat().st_size <= 2, "it ends with the file that it is at"
    assert out == f"{EVENTS}\n", "the answer was there before the entry"
    assert "KeyboardInterrupt" in said
    assert kept(cache) == []
    assert left_over(cache) == []


def test_end_of_the_process_waits_for_the_entry(path: Path, cache: Cache) -> None:
    process = started(SLOW + "cache.tables_of(path, use_cache=True, wait=False)", path)
    assert process.communicate(timeout=60) == ("", "")
    assert len(kept(cache)) == 1
    assert isinstance(cache.tables(path), LazyTables)


def _wait_for(file: Path) -> None:
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _small_files() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_full_disk_is_said_in_one_line(path: Path, cache: Cache) -> None:
    expected = opened(path)
    shutil.rmtree(cache.folder)
    _, held, said = opened(path, preexec_fn=_small_files)
    assert held == expected[1]
    (line,) = said.splitlines()
    assert line.startswith(f"stepscope: without the cache: {cache.folder} cannot be written (")
    assert "STEPSCOPE_CACHE_DIR=FOLDER" in line
    assert "--no-cache" in line
    assert kept(cache) == []
    assert left_over(cache) == []


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with 64 KiB of room."""
    with mounted(tmp_path / "full", "64k") as disk:
        yield disk


def test_full_file_system(path: Path, full_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (full_disk / "filler").write_bytes(b"x" * 40_000)
    monkeypatch.setenv(caches.VARIABLE, str(full_disk / "cache"))
    kind, _, said = opened(path)
    assert kind == "dict"
    assert len(said.splitlines()) == 1
    assert "No space left on device" in said
    assert left_over(Cache(folder=full_disk / "cache", smallest=0)) == []


@pytest.mark.parametrize("place", ["/proc/stepscope", "a file", "below a file"])
def test_folder_that_cannot_be_made_is_said_in_one_line(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").touch()
    folder = {"a file": str(tmp_path / "file"), "below a file": str(tmp_path / "file" / "cache")}.get(place, place)
    monkeypatch.setenv(caches.VARIABLE, folder)
    kind, _, said = opened(path)
    assert kind == "dict"
    (line,) = said.splitlines()
    assert folder in line


def test_no_home(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (caches.VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent/home")
    kind, _, said = opened(path)
    assert kind == "dict"
    (line,) = said.splitlines()
    assert "there is no home folder" in line
    assert not Path("/nonexistent").exists()


def test_cache_of_another_user_is_read_and_not_changed(path: Path, cache: Cache) -> None:
    cache.tables(path)
    for folder, _, files in os.walk(cache.folder):
        os.chmod(folder, 0o555)
        for file in files:
            os.chmod(os.path.join(folder, file), 0o444)
    open_up = [place for place in (path, *path.parents) if place.stat().st_mode & 0o555 != 0o555]
    modes = [place.stat().st_mode for place in open_up]
    user = os.geteuid()
    try:
        for place, mode in zip(open_up, modes, strict=True):
            os.chmod(place, mode | 0o555)
        if user == 0:  # root may write anywhere
            os.seteuid(NOBODY)
        assert isinstance(cache.tables(path), LazyTables)
    finally:
        os.seteuid(user)
        for place, mode in zip(open_up, modes, strict=True):
            os.chmod(place, mode)
        for folder, _, _ in os.walk(cache.folder):
            os.chmod(folder, 0o755)
    assert len(kept(cache)) == 1


def test_workers_leave_it_to_the_process_that_started_them(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    text = path.read_text()
    for rank in range(3):
        (ranks / f"rank_{rank}.json").write_text(text)
    (tmp_path / "file").touch()
    monkeypatch.setenv(caches.VARIABLE, str(tmp_path / "file"))
    done = stepscope("show", "operators", ranks, "--jobs", 3, "--columns", "name")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "without the cache" in line] == done.stderr.splitlines()
    assert done.stderr.count("\n") == 1
