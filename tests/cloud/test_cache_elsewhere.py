"""The cache of traces in buckets: known by the version that the provider gives, and fetched once."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stepscope import importers
from stepscope.core.lazy_tables import LazyTables
from stepscope.core.paths import place
from stepscope.storage.cache import Cache, tables_of
from stepscope.storage.kept import forget, kept

pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # gcsfs, of a test's upload

Upload = Callable[[Path, str], None]
Server = Any  # tests/cloud/conftest.py: scheme, bucket, environment


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """A cache that keeps the smallest traces too."""
    return Cache(folder=tmp_path / "cache", smallest=0)


def same(found: Mapping[str, pl.DataFrame], expected: Mapping[str, pl.DataFrame]) -> None:
    for name in expected:
        assert found[name].equals(expected[name]), name


def opened_and_kept(cache: Cache, url: str) -> Mapping[str, pl.DataFrame]:
    """What is read there; once more where the server did not tell the version at the end, which leaves no entry."""
    before = len(kept(cache))
    for _ in range(5):
        tables = cache.tables(place(url))
        assert not isinstance(tables, LazyTables)
        if len(kept(cache)) > before:
            return tables
    pytest.fail(f"{url} is not kept")


def test_second_opening_fetches_nothing(
    server: Server, ranks: Path, upload: Upload, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{server.bucket}/kept/rank_1.json.gz"
    upload(ranks / "rank_1.json.gz", url)
    expected = tables_of(place(url), use_cache=False)
    same(opened_and_kept(cache, url), expected)
    (entry,) = kept(cache, [url])
    assert entry.trace == url
    monkeypatch.setattr(importers, "importer_of", lambda path: pytest.fail(f"{path} is fetched"))
    again = cache.tables(place(url))
    assert isinstance(again, LazyTables)
    same(again, expected)
    forget(cache, kept(cache, [url]))
    assert kept(cache) == []


def test_another_version_is_fetched(server: Server, tmp_path: Path, ranks: Path, upload: Upload, cache: Cache) -> None:
    url = f"{server.bucket}/changed/rank_0.json"
    upload(ranks / "rank_0.json", url)
    assert opened_and_kept(cache, url)["host"]["start"].min() == 999_000
    changed = tmp_path / "rank_0.json"
    changed.write_bytes((ranks / "rank_0.json").read_bytes().replace(b'"ts": 999,', b'"ts": 998,'))
    assert changed.stat().st_size == (ranks / "rank_0.json").stat().st_size
    upload(changed, url)
    assert opened_and_kept(cache, url)["host"]["start"].min() == 998_000
    assert len(kept(cache)) == 2


def test_a_server_that_gives_no_version_is_asked_each_time(
    web: str, web_folder: Path, ranks: Path, cache: Cache
) -> None:
    (web_folder / "rank_0.json").write_bytes((ranks / "rank_0.json").read_bytes())
    for _ in range(2):
        assert not isinstance(cache.tables(place(f"{web}/plain/rank_0.json")), LazyTables)
    assert kept(cache) == []
