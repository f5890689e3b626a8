"""The cache of parsed tables: the same tables as without it, for the right file, whatever happens to either."""

import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

import polars as pl
import pytest

from stepscope import importers
from stepscope.core import background
from stepscope.core.errors import BadInput
from stepscope.core.importing import Sink
from stepscope.core.lazy_tables import LazyTables
from stepscope.core.schema import empty
from stepscope.storage import cache as caches
from stepscope.storage import open_run
from stepscope.storage.cache import Cache, fill, tables_of, user_cache
from stepscope.storage.content import recall, remember, signature_of
from stepscope.storage.entry import LIST, read_entry, write_entry
from stepscope.storage.kept import forget_all

from .cached_traces import entries, lazy, same


def trace(path: Path, *names: str, rank: int | None = None, **header: object) -> Path:
    """Write a trace with one operator of 1 µs for each name, and a kernel; old enough to be remembered."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": 1}
        for at, name in enumerate(names)
    ]
    events.append(
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"stream": 7}}
    )
    events.append({"ph": "X", "cat": "cpu_op", "name": "no time", "pid": 1, "tid": 1})
    if rank is not None:
        header["distributedInfo"] = {"rank": rank, "world_size": 2}
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], **header, "traceEvents": events}))
    return path


def test_second_opening_gives_the_same_tables_without_parsing(tmp_path: Path, cache: Cache) -> None:
    path = trace(tmp_path / "a.json", "mm", "add", "mm")
    first = cache.tables(path)
    assert not isinstance(first, LazyTables)
    assert first["skipped"].height == 1
    second = lazy(cache.tables(path))
    same(second, first)
    assert second.rows["host"] == second.height("host") == 3
    assert second.height("memory") == 0


def test_changed_content_is_parsed_again_though_size_and_time_are_as_before(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.storage.content._CLOCK", 0)  # as if it had been written a while ago
    path = trace(tmp_path / "a.json", "mm")
    cache.tables(path)
    signature, before = signature_of(path), path.stat()
    assert signature is not None
    assert recall(cache.contents, path, signature), "it will not be hashed again unless it has changed"
    trace(path, "xx")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert cache.tables(path)["host"]["name"].to_list() == ["xx"]
    assert cache.tables(path)["host"]["name"].to_list() == ["xx"]
    assert len(entries(cache)) == 2


def test_touched_moved_and_copied_files_are_found_and_named_by_their_new_path(tmp_path: Path, cache: Cache) -> None:
    path = trace(tmp_path / "a.json", "mm")
    cache.tables(path)
    path.touch()
    assert lazy(cache.tables(path))["processes"]["source"].to_list() == [str(path)]
    (tmp_path / "sub").mkdir()
    for other in (tmp_path / "sub" / "a.json", tmp_path / "b.json"):
        shutil.copy(path, other)
        found = lazy(cache.tables(other))
        for table in ("processes", "meta", "skipped"):
            assert found[table]["source"].unique().to_list() == [str(other)]
        same(found, _parsed(other))
    assert len(entries(cache)) == 1


def test_name_counts_where_it_tells_the_rank(tmp_path: Path, cache: Cache) -> None:
    path = trace(tmp_path / "rank_3.json", "mm")
    cache.tables(path)
    other = Path(shutil.copy(path, tmp_path / "rank_4.json"))
    assert cache.tables(other)["processes"]["rank"].to_list() == [4]
    plain = Path(shutil.copy(path, tmp_path / "trace.json"))
    assert cache.tables(plain)["processes"].select("rank", "rank_source").row(0) == (0, "assumed")
    assert lazy(cache.tables(path))["host"]["rank"].to_list() == [3]


def test_rank_of_the_trace_makes_the_name_unimportant(tmp_path: Path, cache: Cache) -> None:
    path = trace(tmp_path / "rank_3.json", "mm", rank=1)
    cache.tables(path)
    other = Path(shutil.copy(path, tmp_path / "rank_4.json"))
    assert lazy(cache.tables(other))["processes"]["rank"].to_list() == [1]


def test_gzip_is_another_file(tmp_path: Path, cache: Cache) -> None:
    path = trace(tmp_path / "a.json", "mm")
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    cache.tables(path)
    assert not isinstance(cache.tables(packed), LazyTables)
    same(lazy(cache.tables(packed)), _parsed(packed))


def _parsed(path: Path) -> Mapping[str, pl.DataFrame]:
    return tables_of(path, use_cache=False)


def test_content_is_remembered_only_once_a_change_could_not_go_unseen(tmp_path: Path) -> None:
    path, notes = trace(tmp_path / "a.json", "mm"), tmp_path / "notes"
    young = signature_of(path)
    assert young is not None
    remember(notes, path, young, "abc")
    assert recall(notes, path, young) is None
    time.sleep(2.1)
    remember(notes, path, young, "abc")
    assert recall(notes, path, young) == "abc"
    trace(path, "xx")
    changed = signature_of(path)
    assert changed is not None
    assert recall(notes, path, changed) is None


def test_file_that_changes_while_it_is_read_is_not_kept(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = trace(tmp_path / "a.json", "mm")
    importer = importers.importer_of(path)

    class Slow:
        @staticmethod
        def read(path: Path, sink: Sink) -> None:
            importer.read(path, sink)
            trace(path, "written", "meanwhile")

    Slow.read.__module__ = importer.read.__module__
    monkeypatch.setattr(importers, "importer_of", lambda path: Slow)
    assert cache.tables(path)["host"].height == 1
    assert entries(cache) == []


@pytest.mark.parametrize(
    "damage",
    [
        "truncated",
        "longer",
        "another byte",
        "another value",
        "empty",
        "gone",
        "no list",
        "list cut",
        "list of another kind",
        "a file",
    ],
)
def test_damaged_entry_is_dropped_and_the_trace_parsed_again(tmp_path: Path, cache: Cache, damage: str) -> None:
    path = trace(tmp_path / "a.json", *(f"operator {number}" for number in range(500)))
    cache.tables(path)
    listed = entries(cache)[0]
    _damage(listed.parent, damage)
    same(cache.tables(path), _parsed(path))
    same(cache.tables(path), _parsed(path))
    same(lazy(cache.tables(path)), _parsed(path))
    assert len(entries(cache)) == 1


def _damage(entry: Path, damage: str) -> None:
    parquet, listed = entry / "host.0.parquet", entry / LIST
    data = parquet.read_bytes()
    match damage:
        case "truncated":
            parquet.write_bytes(data[: len(data) // 2])
        case "longer":
            parquet.write_bytes(data + b"PAR1")
        case "another byte":
            parquet.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
        case "another value":
            parquet.write_bytes(_with_another_value(parquet))
        case "empty":
            parquet.write_bytes(b"")
        case "gone":
            parquet.unlink()
        case "no list":
            listed.unlink()
        case "list cut":
            listed.write_bytes(listed.read_bytes()[:50])
        case "list of another kind":
            listed.write_text('{"files": [], "rows": {"host": "many"}}')
        case "a file":
            shutil.rmtree(entry)
            entry.write_text("no folder")


def _with_another_value(parquet: Path) -> bytes:
    """The bytes of a file with one changed so that nothing but a hash can tell."""
    data, sound, trial = parquet.read_bytes(), pl.read_parquet(parquet), parquet.with_name("trial")
    for at in range(4, len(data)):
        trial.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        try:
            read = pl.read_parquet(trial)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            continue
        if read.shape == sound.shape and not read.equals(sound):
            return trial.read_bytes()
    raise AssertionError("no such byte")


def test_entry_with_the_wrong_columns_is_dropped(tmp_path: Path, cache: Cache) -> None:
    path = trace(tmp_path / "a.json", "mm")
    expected = cache.tables(path)
    folder = entries(cache)[0].parent
    shutil.rmtree(folder)
    wrong = dict(expected) | {"host": expected["host"].with_columns(pl.col("start").cast(pl.Float64))}
    write_entry(folder, path, wrong, Event())
    tables = lazy(cache.tables(path))
    assert tables.select("host", ["name"])["name"].to_list() == ["mm"]
    assert tables.select("host", ["start"]).schema == {"start": pl.Int64}
    assert entries(cache) == []


def test_entry_that_goes_away_while_it_is_read(tmp_path: Path, cache: Cache) -> None:
    path = trace(tmp_path / "a.json", "mm")
    cache.tables(path)
    tables = lazy(cache.tables(path))
    assert tables.select("host", ["name"]).height == 1
    forget_all(cache)
    assert tables.select("host", ["start"])["start"].to_list() == [0]
    shutil.rmtree(cache.folder)
    cache.tables(path)
    tables = lazy(cache.tables(path))
    forget_all(cache)
    trace(path, "another")
    with pytest.raises(BadInput, match="changed while it was read"):
        tables.select("host", ["start"])


def test_another_parser_or_other_columns_never_meet_an_older_entry(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = trace(tmp_path / "a.json", "mm")
    cache.tables(path)
    monkeypatch.setattr(caches, "_parser", lambda: "0123456789abcdef")
    assert not isinstance(cache.tables(path), LazyTables)
    assert isinstance(cache.tables(path), LazyTables)
    assert len(entries(cache)) == 2


def test_parser_is_told_by_its_files() -> None:
    code = (
        "import sys, pathlib; from stepscope.storage import cache\n"
        "first = cache._parser(); cache._parser.cache_clear()\n"
        "read = pathlib.Path.read_bytes\n"
        "pathlib.Path.read_bytes = lambda p: read(p) + (b'#' if p.name == sys.argv[1] else b'')\n"
        "print(first == cache._parser())"
    )
    files = {"events.py": "False", "importing.py": "False", "records.py": "False", "no such file": "True"}
    for file, answer in files.items():
        done = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == answer


def test_traces_below_the_limit_are_not_kept(tmp_path: Path) -> None:
    path = trace(tmp_path / "a.json", *(f"operator {number * 7919 % 1000}" for number in range(100)))
    size = path.stat().st_size
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    small = Cache(folder=tmp_path / "cache", smallest=size + 1)
    small.tables(path)
    assert not small.folder.exists()
    assert packed.stat().st_size < small.smallest < packed.stat().st_size * caches.PACKED
    small.tables(packed)
    assert len(entries(small)) == 1, "packed traces count as many times their size"
    Cache(folder=tmp_path / "cache", smallest=size).tables(path)
    assert len(entries(small)) == 2


def test_fill_gives_a_sink_what_the_importer_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "SMALLEST", 0)
    monkeypatch.setenv(caches.VARIABLE, str(tmp_path / "cache"))
    path = trace(tmp_path / "a.json", "mm", "add")
    expected, first, second = Sink(), Sink(), Sink()
    importers.importer_of(path).read(path, expected)
    fill(path, first, use_cache=True)
    assert len(entries(Cache(folder=tmp_path / "cache", smallest=0))) == 1
    fill(path, second, use_cache=True)
    for sink in (first, second):
        assert sink.skipped == expected.skipped
        for name, parts in expected.parts.items():
            assert pl.concat(sink.parts.get(name, [empty(name)])).equals(pl.concat(parts)), name


def test_traced_windows_of_a_run_are_kept_and_joined_as_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "SMALLEST", 0)
    monkeypatch.setenv(caches.VARIABLE, str(tmp_path / "cache"))
    process = tmp_path / "run" / "rank-00003.pid-4711"
    process.mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text('{"format": "stepscope-run", "version": 1}')
    (process / "process.json").write_text('{"rank": 3, "pid": 4711}')
    windows = [{"window": number, "status": "recorded", "trace": f"window-{number}.json"} for number in range(2)]
    (process / "windows.jsonl").write_text("".join(json.dumps(window) + "\n" for window in windows))
    for number in range(2):
        trace(process / f"window-{number}.json", "mm", f"operator {number}")
    plain = open_run(tmp_path / "run", use_cache=False).tables
    assert plain["host"].select("rank", "index").unique().height == 4
    for _ in range(2):
        with background.awaited():
            same(open_run(tmp_path / "run", use_cache=True).tables, plain)
        assert len(entries(Cache(folder=tmp_path / "cache", smallest=0))) == 2
    monkeypatch.setattr(importers, "importer_of", lambda path: pytest.fail(f"{path} is parsed"))
    same(open_run(tmp_path / "run", use_cache=True).tables, plain)


def test_folder_is_given_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(caches.VARIABLE, "here")
    assert user_cache() == Cache(folder=tmp_path / "here", smallest=caches.SMALLEST)
    monkeypatch.delenv(caches.VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if sys.platform == "linux":
        assert user_cache() == Cache(folder=tmp_path / "xdg" / "stepscope", smallest=caches.SMALLEST)
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert user_cache() == Cache(folder=tmp_path / ".cache" / "stepscope", smallest=caches.SMALLEST)


def test_entry_says_where_the_trace_lay(tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    trace(tmp_path / "a.json", "mm")
    monkeypatch.chdir(tmp_path)
    cache.tables(Path("a.json"))
    entry = read_entry(entries(cache)[0].parent)
    assert (entry.trace, entry.place) == ("a.json", str(tmp_path / "a.json"))
    assert lazy(cache.tables(tmp_path / "a.json"))["processes"]["source"].to_list() == [str(tmp_path / "a.json")]
