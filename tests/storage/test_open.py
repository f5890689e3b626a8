"""Opening what a user points at."""

import gzip
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stepscope.core.errors import BadInput
from stepscope.core.importing import Sink
from stepscope.importers import append
from stepscope.storage import open_run
from stepscope.storage.workers import Workers, in_this_process

NOBODY = 65534


def trace(path: Path, *names: str, rank: int | None = None, correlation: int = 0, at: int = 0) -> Path:
    """Write a trace with one operator of 1 µs for each name, from `at` µs, and a kernel that the first launched."""
    events: list[dict[str, Any]] = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": name,
            "pid": 1,
            "tid": 1,
            "ts": at + number,
            "dur": 1,
            "args": {"External id": number + 1},
        }
        for number, name in enumerate(names)
    ]
    launched = {"device": 0, "stream": 7, "correlation": correlation}
    events.append(
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": at + 1, "dur": 1, "args": launched}
    )
    header = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 2}}
    text = json.dumps(
        {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "G"}], **header, "traceEvents": events}
    )
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def refused(path: Path, match: str) -> BadInput:
    with pytest.raises(BadInput, match=match) as caught:
        open_run(path)
    assert str(path) in str(caught.value)
    assert caught.value.next_step
    return caught.value


def test_file_is_recognized_by_content_not_by_name(tmp_path: Path) -> None:
    packed = trace(tmp_path / "a.gz", "mm").rename(tmp_path / "a.txt")
    run = open_run(str(packed))
    assert run.optional("host")["name"].to_list() == ["mm"]
    assert run.path == str(packed)


def test_folder_of_ranks(tmp_path: Path) -> None:
    trace(tmp_path / "worker_b.pt.trace.json", "one", rank=1)
    trace(tmp_path / "worker_a.pt.trace.json.gz", "zero", rank=0)
    (tmp_path / "notes.json").write_text('{"what": "something else"}')
    (tmp_path / "README.md").write_text("about")
    run = open_run(tmp_path)
    assert run.optional("host").select("rank", "index", "name").rows() == [(0, 0, "zero"), (1, 0, "one")]
    assert run.optional("processes").select("rank", "world_size").rows() == [(0, 2), (1, 2)]
    assert len(run.optional("devices")) == 2
    assert run.optional("skipped").rows() == [(str(tmp_path / "notes.json"), "not a trace: not read", 1)]


def test_rank_from_names_of_files(tmp_path: Path) -> None:
    for rank in (3, 11):
        trace(tmp_path / f"rank_{rank}.json", "x")
    assert open_run(tmp_path).optional("processes")["rank"].to_list() == [3, 11]


def test_two_files_of_one_rank_are_refused(tmp_path: Path) -> None:
    trace(tmp_path / "a.json", "x", rank=1)
    trace(tmp_path / "b.json", "x", rank=1)
    refused(tmp_path, "a.json and b.json are both of rank 1")


def test_two_files_without_rank_are_refused(tmp_path: Path) -> None:
    trace(tmp_path / "n0_1.17.pt.trace.json", "x")
    trace(tmp_path / "n0_2.17.pt.trace.json", "x")
    refused(tmp_path, r"both of rank 0 \(no rank in the files or their names: 0 is assumed\)")


def test_spans_of_one_worker_are_one_rank_in_the_order_of_time(tmp_path: Path) -> None:
    """Stamps are ms in older files and ns in newer ones: 1.6e12 ms is before 1.8e18 ns."""
    trace(tmp_path / "n0_1.1790000000000000000.pt.trace.json", "late", "later", correlation=9, at=100)
    trace(tmp_path / "n0_1.1690000000000.pt.trace.json", "early", correlation=4)
    run = open_run(tmp_path)
    host, device = run.optional("host"), run.optional("device")
    assert host.select("rank", "index", "name", "external_id").rows() == [
        (0, 0, "early", 1),
        (0, 2, "late", 3),
        (0, 3, "later", 4),
    ]
    assert device.select("index", "correlation").rows() == [(1, 4), (4, 14)]
    assert len(run.optional("processes")) == len(run.optional("devices")) == 1
    reasons = run.optional("skipped").select("reason", "count").rows()
    assert reasons == [("rank 0: traces of one process, read as one in order of time", 2)]


def test_links_that_mean_none_stay_none(tmp_path: Path) -> None:
    sink = Sink()
    append(trace(tmp_path / "a.json", "x", correlation=5), sink)
    append(trace(tmp_path / "b.json", "x", correlation=0), sink)
    device = sink.run("").optional("device")
    assert device["correlation"].to_list() == [5, 0]
    assert device["index"].to_list() == [1, 3]


def test_append_sets_the_rank_and_leaves_tables_out(tmp_path: Path) -> None:
    sink = Sink()
    append(trace(tmp_path / "a.json", "x", rank=0), sink, rank=5, leave=frozenset(("processes",)))
    run = sink.run("")
    assert run.optional("host")["rank"].to_list() == [5]
    assert run.optional("devices")["rank"].to_list() == [5]
    assert run.optional("processes").is_empty()


def test_append_of_a_bad_trace_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("no")
    sink = Sink()
    with pytest.raises(BadInput):
        append(tmp_path / "a.json", sink)
    assert all(table.is_empty() for table in sink.run("").tables.values())


def test_one_broken_rank_of_several_is_counted(tmp_path: Path) -> None:
    trace(tmp_path / "rank_0.json", "x")
    (tmp_path / "rank_1.json").write_text('{"schemaVersion": 1}')
    run = open_run(tmp_path)
    assert run.optional("processes")["rank"].to_list() == [0]
    ((source, reason, count),) = run.optional("skipped").rows()
    assert (source, count) == (str(tmp_path / "rank_1.json"), 1)
    assert reason.startswith("no traceEvents key")


def test_a_rank_that_is_not_there_or_cut_short_is_counted_with_the_reason(tmp_path: Path) -> None:
    whole = trace(tmp_path / "rank_0.json.gz", *(f"op{number}" for number in range(99)))
    (tmp_path / "rank_1.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "rank_2.json").touch()
    (tmp_path / "rank_3.json.gz").write_bytes(whole.read_bytes()[:12])
    run = open_run(tmp_path)
    assert run.optional("processes")["rank"].to_list() == [0]
    assert sorted(run.optional("skipped").rows()) == [
        (str(tmp_path / "rank_1.json"), "a link to a file that is not there: not read", 1),
        (str(tmp_path / "rank_2.json"), "the file is empty (0 bytes): not read", 1),
        (str(tmp_path / "rank_3.json.gz"), "the gzip stream ends too early: not read", 1),
    ]


@pytest.mark.parametrize("workers", [None, in_this_process()])
def test_a_broken_file_that_was_named_is_an_error(tmp_path: Path, workers: Workers | None) -> None:
    whole = trace(tmp_path / "rank_0.json", "x")
    (tmp_path / "rank_1.json").touch()
    with pytest.raises(BadInput, match=r"rank_1\.json: the file is empty"):
        open_run([str(whole), str(tmp_path / "rank_1.json")], workers=workers)
    assert open_run([str(whole), str(tmp_path / "rank_?.json")], workers=workers).rows("skipped") == 1


def test_a_folder_of_broken_files_names_them(tmp_path: Path) -> None:
    (tmp_path / "a.json").touch()
    (tmp_path / "b.json").write_text("no")
    (tmp_path / "c.json").write_bytes(b"\x00\x01")
    (tmp_path / "d.json").touch()
    why = refused(tmp_path, "a folder without a run and without traces").why
    assert "a.json (the file is empty (0 bytes)), b.json (not JSON" in why
    assert why.endswith("c.json (not JSON but a binary file), 1 more")


def test_windows_of_one_worker_that_overlap_are_refused(tmp_path: Path) -> None:
    first = trace(tmp_path / "n0_1.1690000000000.pt.trace.json", "x", "y", "z")
    (tmp_path / "n0_1.1690000000001.pt.trace.json").write_bytes(first.read_bytes())
    error = refused(tmp_path, "overlap in time")
    assert "n0_1.1690000000000.pt.trace.json and n0_1.1690000000001.pt.trace.json" in error.why
    trace(tmp_path / "n0_1.1690000000001.pt.trace.json", "x", "y", "z", at=3)
    assert open_run(tmp_path).rows("host") == 6


@pytest.mark.parametrize("workers", [None, in_this_process()])
def test_traces_of_different_jobs_are_refused(tmp_path: Path, workers: Workers | None) -> None:
    trace(tmp_path / "a.json", "x", rank=0)
    other = trace(tmp_path / "b.json", "x", rank=1)
    other.write_text(other.read_text().replace('"world_size": 2', '"world_size": 128'))
    with pytest.raises(BadInput, match=r"one job\? ranks in all: 2 and 128") as caught:
        open_run(tmp_path, workers=workers)
    assert str(tmp_path / "a.json") in str(caught.value) and str(other) in str(caught.value)


def test_renaming_is_advised_only_where_it_helps(tmp_path: Path) -> None:
    for name, rank in (("a.json", 0), ("b.json", 0)):
        trace(tmp_path / name, "x", rank=rank)
    assert refused(tmp_path, r"both of rank 0\n").next_step.startswith("Open one of them: ")
    assert "name them" not in refused(tmp_path, "both of rank 0").next_step
    trace(tmp_path / "b.json", "x")
    error = refused(tmp_path, r"both of rank 0 \(no rank in b\.json or its name: 0 is assumed\)")
    assert "if b.json is of another rank, name it so: …rank_1.json" in error.next_step
    trace(tmp_path / "a.json", "x")
    assert "name them …rank_0.json" in refused(tmp_path, "both of rank 0").next_step


def test_two_paths_of_one_rank_are_named_once(tmp_path: Path) -> None:
    paths = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        paths.append(trace(tmp_path / name / "a.json", "x", rank=1))
    with pytest.raises(BadInput, match="both of rank 1") as caught:
        open_run(paths)
    assert [str(caught.value).partition("\n")[0].count(str(path)) for path in paths] == [1, 1]


def test_only_broken_ranks_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rank_1.json").write_text('{"schemaVersion": 1}')
    with pytest.raises(BadInput, match=r"rank_1\.json: no traceEvents key"):
        open_run(tmp_path)


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    assert "stepscope run" in refused(tmp_path / "none", "no such file or folder").next_step
    refused(tmp_path, "the folder is empty")
    (tmp_path / "text").write_text("hello")
    refused(tmp_path, "a folder without a run and without traces")
    refused(tmp_path / "text", "not JSON: it begins with 'hello'")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "neither a file nor a folder")


def test_folder_of_runs_says_which_to_open(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "run.json").write_text("{}")
    assert f"stepscope report {tmp_path / 'first'}" in refused(tmp_path, "without a run").next_step


@pytest.fixture
def unprivileged(shared_folder: Path) -> Iterator[None]:
    """Not root, for whom every file can be read."""
    refused(shared_folder, "empty")  # imports what opening needs, which another user may not be able to read
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    yield
    os.seteuid(user)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users may enter and write to."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.mark.usefixtures("unprivileged")
@pytest.mark.parametrize("name", ["closed.json", "closed"])
def test_without_permission(closed: Path, name: str) -> None:
    refused(closed / name, "permission denied")


@pytest.fixture
def closed(shared_folder: Path) -> Path:
    """A folder with a file and a folder that only their owner could open, if he had not forbidden it to himself."""
    trace(shared_folder / "closed.json", "x").chmod(0)
    (shared_folder / "closed").mkdir(mode=0)
    return shared_folder


def test_name_that_no_file_can_have(tmp_path: Path) -> None:
    refused(tmp_path / ("x" * 300), "file name too long")
    refused(tmp_path / "a" / ".." / "b", "no such file or folder")


def test_spans_of_the_corpus_are_joined_without_clashes(corpus: Path) -> None:
    folder = corpus / "traces" / "local" / "cpu_mlp"
    run = open_run(folder)
    parts = [open_run(file) for file in sorted(folder.glob("*.gz"))]
    for table in ("host", "memory", "flows"):
        assert len(run.optional(table)) == sum(len(part.optional(table)) for part in parts)
    host = run.optional("host")
    assert host["index"].is_unique().all()
    frames = host.filter(pl.col("python_id").is_not_null())
    assert frames["python_id"].is_unique().all()
    assert set(frames["python_parent_id"].drop_nulls()) <= set(frames["python_id"])


def test_two_ranks_of_the_corpus(corpus: Path) -> None:
    run = open_run(corpus / "traces" / "hta" / "sampled_2ranks")
    assert run.optional("processes").select("rank", "rank_source", "world_size").rows() == [
        (0, "trace", 128),
        (1, "trace", 128),
    ]
    assert run.optional("device").group_by("rank").len().sort("rank").rows() == [(0, 1204), (1, 1154)]
