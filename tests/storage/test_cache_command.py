"""The cache as a person meets it: reports that are the same with it and without it, and `stepscope cache`."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from stepscope.core import background
from stepscope.core.lazy_tables import LazyTables
from stepscope.core.run import Run
from stepscope.render.json import dumps, report_document
from stepscope.report.assemble import assemble
from stepscope.storage import cache as caches
from stepscope.storage import open_run
from stepscope.storage.cache import Cache, tables_of
from stepscope.storage.kept import kept

from ..command import command, stepscope
from ..thoroughness import THOROUGH

pytestmark = pytest.mark.slow

LARGE = "tracelens/sglang_decode/bs_32_rank0.json.gz"
TRACES = (
    "local/cpu_conv_nw2",
    "local/cpu_mlp_verbose",
    "local/api_py.json.gz",
    "local/nasty.json",
    "kineto/resnet50_num_workers_0",
    "particle_transformer/gpu_working_chrome_trace.json.gz",
    "tracelens/mi300/Falconsai_nsfw_image_detection__1016002.json.gz",
    "malformed/truncated.json.gz",
    "malformed/missing_dur.json",
    "malformed/non_utf8.json",
)
OPERATOR = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """The cache of the processes that a test starts."""
    monkeypatch.setenv(caches.VARIABLE, str(tmp_path / "cache"))
    return Cache(folder=tmp_path / "cache", smallest=0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A trace that is large enough to be kept."""
    events = [{**OPERATOR, "ts": at, "args": {"filler": "x" * 8_000}} for at in range(caches.SMALLEST // 8_000)]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    assert file.stat().st_size > caches.SMALLEST
    return file


@pytest.mark.parametrize("name", TRACES if THOROUGH else TRACES[::2])
def test_report_from_the_cache_is_the_same_byte_for_byte(
    corpus: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(caches, "SMALLEST", 0)
    path = corpus / "traces" / name
    plain = _report(open_run(path, use_cache=False))
    assert kept(cache) == []
    with background.awaited():
        first = _report(open_run(path, use_cache=True))
    second = open_run(path, use_cache=True)
    assert _report(second) == first == plain
    assert kept(cache)
    if path.is_file():
        assert isinstance(second.tables, LazyTables)
        assert "index" not in second.tables.loaded.get("flows", ()), "no analysis reads this"


def _report(run: Run) -> str:
    return dumps(report_document(assemble(run)))


def test_commands_give_the_same_with_and_without_the_cache(corpus: Path, cache: Cache) -> None:
    path = corpus / "traces" / LARGE
    for words in (("report", path, "--format", "json"), ("show", "device_time", path, "--format", "csv")):
        shutil.rmtree(cache.folder, ignore_errors=True)
        without = stepscope(*words, "--no-cache")
        assert not cache.folder.exists()
        first = stepscope(*words)
        assert len(kept(cache)) == 1
        second = stepscope(*words)
        assert without.returncode == 0
        assert first.stdout == second.stdout == without.stdout
        assert first.stderr == second.stderr == without.stderr == ""


def test_second_opening_uses_the_entry(path: Path, cache: Cache) -> None:
    assert stepscope("show", "operators", path).returncode == 0
    (before,) = kept(cache)
    os.utime(before.folder / "entry.json", (1_000, 1_000))
    assert stepscope("show", "operators", path).returncode == 0
    (after,) = kept(cache)
    assert after.used > before.used - 10**9
    assert stepscope("show", "operators", path, "--no-cache").returncode == 0


def test_listing(path: Path, cache: Cache) -> None:
    empty = stepscope("cache")
    assert empty.returncode == 0
    assert empty.stdout.startswith(f"{cache.folder} holds 0 traces, 0 B of at most ")
    stepscope("show", "operators", path)
    shown = stepscope("cache", env={**os.environ, "COLUMNS": "1000"}).stdout
    (entry,) = kept(cache)
    assert f"{cache.folder} holds 1 trace, " in shown
    assert str(path) in shown
    assert f"{entry.events:,}" in shown
    assert time.strftime("%Y-%m-%d") in shown
    document = json.loads(stepscope("cache", "--format", "json").stdout)
    assert (document["schema"], document["version"], document["cleared"]) == ("stepscope-cache", 1, False)
    assert document["total"] == entry.size
    assert document["limit"] > document["total"]
    (row,) = document["entries"]
    assert row == {
        "trace": str(path),
        "size": entry.size,
        "events": entry.events,
        "rows": dict(entry.rows),
        "last_used": entry.used,
    }
    assert row["rows"]["host"] == entry.events == caches.SMALLEST // 8_000


def test_clearing_one_trace_and_all(tmp_path: Path, path: Path, cache: Cache) -> None:
    other = tmp_path / "other.json"
    other.write_text(path.read_text().replace("aten::mm", "aten::bb"))
    for trace in (path, other):
        tables_of(trace, use_cache=True)
    assert len(kept(cache)) == 2
    done = stepscope("cache", "--clear", path)
    assert done.stdout.startswith("Removed 1 trace, ")
    assert [one.trace for one in kept(cache)] == [str(other)]
    again = stepscope("cache", "--clear", path)
    assert again.returncode == 2
    assert again.stderr == f"stepscope: {path}: not in the cache\n  `stepscope cache` lists what is\n"
    assert stepscope("cache", "clear").stderr == "stepscope: clear: not in the cache\n  stepscope cache --clear\n"
    done = stepscope("cache", "--clear", "--format", "json")
    assert json.loads(done.stdout)["cleared"] is True
    assert kept(cache) == []
    assert stepscope("cache", "--clear").stdout.startswith("Removed 0 traces, ")


def test_clearing_touches_nothing_that_is_not_of_the_cache(tmp_path: Path, path: Path, cache: Cache) -> None:
    tables_of(path, use_cache=True)
    strangers = [cache.folder / "mine.txt", cache.entries / "holiday" / "photo.jpg", cache.entries / "notes.json"]
    for file in strangers:
        file.parent.mkdir(exist_ok=True)
        file.touch()
    assert stepscope("cache", "--clear").returncode == 0
    assert all(file.exists() for file in strangers)


def test_no_home_is_an_error_for_the_cache_command_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (caches.VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent/home")
    refused = stepscope("cache")
    assert refused.returncode == 2
    assert caches.VARIABLE in refused.stderr
    opened = stepscope("show", "operators", path, "--columns", "name")
    assert opened.returncode == 0
    assert opened.stderr.count("\n") == 1
    assert stepscope("show", "operators", path, "--columns", "name", "--no-cache").stderr == ""


def test_doctor_tells_whether_the_cache_can_be_used(tmp_path: Path, cache: Cache) -> None:
    def check() -> tuple[str, str]:
        rows = json.loads(stepscope("doctor", "--format", "json").stdout)["checks"]
        (row,) = (row for row in rows if row["name"].startswith("cache"))
        return row["state"], row["found"]

    state, found = check()
    assert state == "yes"
    assert str(cache.folder) in found
    assert not cache.folder.exists(), "looking changes nothing"
    cache.folder.write_text("a file")
    state, found = check()
    assert state == "no"


def test_interruption_leaves_nothing_half_written(path: Path, cache: Cache) -> None:
    for delay in (0.3, 0.6, 0.9, 1.2, 1.5):
        process = subprocess.Popen(
            command("show", "operators", path),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert list(cache.entries.glob("unfinished-*")) == []
    assert stepscope("show", "operators", path).returncode == 0
    assert len(kept(cache)) == 1
