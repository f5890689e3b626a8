"""What every importer promises: it knows its own input, names what it refuses, and loses nothing silently."""

import gzip
import json
import os
import struct
from pathlib import Path

import pytest

from stepscope.core.errors import BadInput
from stepscope.core.importing import Importer, Sink
from stepscope.core.plugins import PluginGroup
from stepscope.importers import HEAD_SIZE, head

GROUP = PluginGroup("importers", Importer)
IMPORTERS = GROUP.load()

FOREIGN = {
    "empty": b"",
    "blank": b" \n\n",
    "html": b"<html><body>404</body></html>",
    "log": b"step 1 loss 0.3\nstep 2 loss 0.2\n",
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "sqlite": b"SQLite format 3\x00" + bytes(100),
    "configuration": b'{"learning_rate": 0.1, "layers": [1, 2]}',
    "execution trace": b'{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []}',
    "Paddle": b'{"displayTimeUnit": "ms", "schemaVersion": "1.0.2", "span_index": "0", "traceEvents": []}',
    "number": b"42",
}

BROKEN = {
    "empty": b"",
    "blank": b" \n",
    "not JSON": b"hello",
    "open object": b"{",
    "open list of events": b'{"traceEvents": [',
    "gzip header only": b"\x1f\x8b\x08",
    "gzip of nothing": gzip.compress(b""),
    "configuration": b'{"a": 1}',
    "garbage": struct.pack("<8q", *range(8)),
}


@pytest.mark.parametrize("importer", IMPORTERS)
@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_content_is_not_recognized(importer: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(FOREIGN[kind])
    assert not IMPORTERS[importer].sniff(path, FOREIGN[kind])


@pytest.mark.parametrize("importer", IMPORTERS)
def test_empty_folder_is_not_recognized(importer: str, tmp_path: Path) -> None:
    assert not IMPORTERS[importer].sniff(tmp_path, b"")


@pytest.mark.parametrize("importer", IMPORTERS)
@pytest.mark.parametrize("kind", BROKEN)
def test_broken_file_is_refused_by_name(importer: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "odd name.json"
    path.write_bytes(BROKEN[kind])
    sink = Sink()
    with pytest.raises(BadInput, match=r"odd name\.json") as caught:
        IMPORTERS[importer].read(path, sink)
    assert caught.value.why
    assert "`stepscope" in caught.value.next_step


@pytest.mark.parametrize("importer", IMPORTERS)
def test_missing_path_and_folder_are_refused(importer: str, tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(BadInput, match=str(path)):
            IMPORTERS[importer].read(path, Sink())


@pytest.mark.parametrize("importer", IMPORTERS)
def test_page_and_clock_are_written(importer: str) -> None:
    assert len(GROUP.page(importer)) > 200, "the docstring says who writes the format and how to get a file"
    assert "epoch" in IMPORTERS[importer].clock, "`clock` says whether times are since the Unix epoch"


def test_files_are_recognized_by_content(corpus: Path) -> None:
    """Each trace of the corpus is recognized by one importer at most, traces of torch by exactly one."""
    found: dict[str, list[str]] = {}
    for path in sorted((corpus / "traces").rglob("*")):
        if path.is_file() and "malformed" not in path.parts and "licenses" not in path.parts:
            start = head(path)
            assert len(start) <= HEAD_SIZE
            found[str(path)] = [name for name, importer in IMPORTERS.items() if importer.sniff(path, start)]
    assert max(map(len, found.values())) == 1
    kineto = {path for path, names in found.items() if names == ["kineto"]}
    for file in (corpus / "golden" / "exact").rglob("*.json"):
        trace = corpus / "traces" / json.loads(file.read_text())["trace"]
        if "malformed" not in trace.parts and "nsys" not in trace.parts:
            assert str(trace) in kineto
    assert not any(part in path for path in kineto for part in ("paddle", "nsys", "_et.json", "/et.json"))


def test_head_of_something_that_is_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(BadInput, match="neither a file nor a folder"):
        head(pipe)
