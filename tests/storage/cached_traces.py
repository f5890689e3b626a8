"""What the tests of the cache share: small traces, and what is in the cache of them."""

import json
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from stepscope.core.lazy_tables import LazyTables
from stepscope.core.schema import TABLES
from stepscope.storage.cache import Cache
from stepscope.storage.entry import LIST


def trace(path: Path, *names: str) -> Path:
    """Write a trace with one operator of 1 µs for each name."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": 1}
        for at, name in enumerate(names)
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    return path


def entries(cache: Cache) -> list[Path]:
    """The list of each entry."""
    return sorted(cache.entries.glob(f"*/{LIST}"))


def lazy(tables: Mapping[str, pl.DataFrame]) -> LazyTables:
    """The tables, which must be from the cache."""
    assert isinstance(tables, LazyTables)
    return tables


def same(found: Mapping[str, pl.DataFrame], expected: Mapping[str, pl.DataFrame]) -> None:
    """All tables must be equal, types included."""
    for name in TABLES:
        assert found[name].schema == expected[name].schema, name
        assert found[name].equals(expected[name]), name
