"""How much room the cache takes, what goes first, and how it is cleared."""

import os
import time
from pathlib import Path

from stepscope.core.lazy_tables import LazyTables
from stepscope.storage.cache import Cache
from stepscope.storage.entry import LIST
from stepscope.storage.kept import forget, forget_all, kept
from stepscope.storage.space import make_room

from .cached_traces import entries, lazy, trace


def test_least_recently_used_entries_go(tmp_path: Path, cache: Cache) -> None:
    paths = [trace(tmp_path / f"{name}.json", name) for name in ("one", "two", "three")]
    for path in paths:
        cache.tables(path)
    for seconds, path in enumerate(reversed(paths), 1_000):  # used in the order three, two, one
        (entry,) = kept(cache, [path])
        os.utime(entry.folder / LIST, (seconds, seconds))
    assert [Path(one.trace).stem for one in kept(cache)] == ["one", "two", "three"]
    lazy(cache.tables(paths[2]))
    sizes = {Path(one.trace).stem: one.size for one in kept(cache)}
    make_room(cache.entries, most=sizes["three"] + sizes["one"])
    assert [Path(one.trace).stem for one in kept(cache)] == ["three", "one"]
    make_room(cache.entries, most=0)
    assert kept(cache) == []


def test_limit_holds_when_an_entry_is_added(tmp_path: Path) -> None:
    cache = Cache(folder=tmp_path / "cache", smallest=0, most=1)
    cache.tables(trace(tmp_path / "a.json", "mm"))
    assert entries(cache) == []


def test_what_killed_writers_left_goes_after_an_hour_or_when_all_is_cleared(tmp_path: Path, cache: Cache) -> None:
    cache.tables(trace(tmp_path / "a.json", "mm"))
    left = cache.entries / "unfinished-left"
    left.mkdir()
    make_room(cache.entries, most=10**9)
    assert left.exists(), "it may be in work"
    os.utime(left, (0, 0))
    make_room(cache.entries, most=10**9)
    assert not left.exists()
    left.mkdir()
    strange = cache.entries / "not of the cache"
    strange.mkdir()
    forget_all(cache)
    assert {path.name for path in cache.entries.iterdir()} == {"not of the cache", "swept"}


def test_forget_one_trace_by_its_path_or_by_its_content(tmp_path: Path, cache: Cache) -> None:
    first, second = trace(tmp_path / "a.json", "mm"), trace(tmp_path / "b.json", "add")
    cache.tables(first)
    cache.tables(second)
    forget(cache, kept(cache, [first]))
    assert [one.trace for one in kept(cache)] == [str(second)]
    assert not isinstance(cache.tables(first), LazyTables)
    (one,) = kept(cache, [second])
    assert (one.events, one.rows["host"], one.size > 1_000) == (1, 1, True)
    assert time.time() - one.used / 1e9 < 60
