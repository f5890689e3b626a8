"""Of a trace in the cache only the columns, and the rows, that are asked for are read."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from stepscope.core.run import Run
from stepscope.storage.cache import Cache, tables_of
from stepscope.storage.content import content_of

from .cached_traces import entries, lazy, same, trace


def _parsed(path: Path) -> Mapping[str, pl.DataFrame]:
    return tables_of(path, use_cache=False)


def test_only_the_columns_that_are_asked_for_are_read_and_each_once(tmp_path: Path, cache: Cache) -> None:
    path = trace(tmp_path / "a.json", "mm", "add")
    cache.tables(path)
    tables = lazy(cache.tables(path))
    run = Run(tables)
    assert run.rows("host") == 2
    assert tables.loaded == {}, "counting rows reads nothing"
    assert run.optional("host", "start", "name").columns == ["start", "name"]
    assert sorted(tables.loaded["host"]) == ["name", "start"]
    shutil.rmtree(entries(cache)[0].parent)
    path.unlink()
    assert run.optional("host", "name")["name"].to_list() == ["mm", "add"], "what was read is not read again"


def test_other_columns_are_not_touched(tmp_path: Path, cache: Cache) -> None:
    """One column of the file is filled with rubbish, and the hash in the list corrected."""
    names = [f"operator {number}" for number in range(2_000)]
    path = trace(tmp_path / "a.json", *names)
    cache.tables(path)
    listed = entries(cache)[0]
    parquet = listed.parent / "host.0.parquet"
    broken, sound = _break(parquet, "name", keep="start"), content_of(parquet)
    parquet.write_bytes(broken)
    listed.write_text(listed.read_text().replace(sound, content_of(parquet)))
    run = Run(lazy(cache.tables(path)))
    assert run.optional("host", "start")["start"].to_list() == [number * 1000 for number in range(2_000)]
    assert len(entries(cache)) == 1
    assert run.optional("host", "name")["name"].to_list() == names, "the rubbish is found, and the trace parsed again"
    assert entries(cache) == []


def _break(parquet: Path, column: str, *, keep: str) -> bytes:
    """The bytes of a file with some changed, so that one column cannot be read and another can."""
    data, trial = parquet.read_bytes(), parquet.with_name("trial")
    kept = pl.read_parquet(parquet, columns=[keep])
    for at in range(0, len(data), 64):
        trial.write_bytes(data[:at] + b"\xff" * 64 + data[at + 64 :])
        try:
            pl.read_parquet(trial, columns=[column])
        except pl.exceptions.PolarsError:
            try:
                if pl.read_parquet(trial, columns=[keep]).equals(kept):
                    return trial.read_bytes()
            except pl.exceptions.PolarsError:
                continue
    raise AssertionError("no such place")


def test_where_reads_the_rows_that_pass(tmp_path: Path, cache: Cache) -> None:
    path = trace(tmp_path / "a.json", "mm", "add", "mm")
    cache.tables(path)
    tables = lazy(cache.tables(path))
    run, test = Run(tables), pl.col("name") == "mm"
    assert run.where("host", test, "start").rows() == [(0,), (2_000,)]
    assert tables.loaded == {}
    run.optional("host", "start", "name")
    shutil.rmtree(entries(cache)[0].parent)
    path.unlink()
    assert run.where("host", test, "start").rows() == [(0,), (2_000,)], "from what is loaded"
    assert run.where("memory", pl.col("bytes") > 0, "time").schema == {"time": pl.Int64}
    assert Run({"host": run.optional("host", "start", "name")}).where("host", test, "start").height == 2


def test_unknown_column_or_table_is_the_callers_mistake(tmp_path: Path, cache: Cache) -> None:
    path = trace(tmp_path / "a.json", "mm")
    cache.tables(path)
    run = Run(cache.tables(path))
    with pytest.raises(KeyError, match="host has no column color"):
        run.optional("host", "color")
    with pytest.raises(KeyError):
        run.rows("colors")
    assert len(entries(cache)) == 1


def test_large_tables_are_several_files_in_order(tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.storage.entry._ROWS", 7)
    path = trace(tmp_path / "a.json", *(f"operator {number}" for number in range(100)))
    cache.tables(path)
    assert len(list(entries(cache)[0].parent.glob("host.*.parquet"))) == 15
    same(lazy(cache.tables(path)), _parsed(path))
    late = Run(cache.tables(path)).where("host", pl.col("start") > 50_000, "index", "name")
    assert late["index"].to_list() == list(range(51, 100))
