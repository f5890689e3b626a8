"""Traces, ranks, runs and reports in buckets of each provider, at a server that speaks its protocol.

`server` is each provider in turn, found by the environment variables that its users set.
"""

import json
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepscope.core.errors import BadInput
from stepscope.core.paths import place
from stepscope.core.run import Run
from stepscope.storage import open_run

pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # gcsfs, of a test's upload

Same = Callable[[Run, Run], None]
Upload = Callable[[Path, str], None]
Command = Callable[..., "subprocess.CompletedProcess[str]"]
Server = Any  # tests/cloud/conftest.py: scheme, bucket, environment


def test_a_trace_a_folder_a_pattern_and_a_run_are_read_as_here(
    server: Server, ranks: Path, run_directory: Path, upload: Upload, same: Same
) -> None:
    upload(ranks, f"{server.bucket}/a/ranks")
    upload(run_directory, f"{server.bucket}/a/run")
    same(open_run(f"{server.bucket}/a/ranks/rank_1.json.gz"), open_run(ranks / "rank_1.json.gz"))
    same(open_run(f"{server.bucket}/a/ranks"), open_run(ranks))
    same(open_run(f"{server.bucket}/a/ranks/"), open_run(ranks))
    same(open_run(f"{server.bucket}/a/ranks/rank_*.json*"), open_run(ranks))
    same(open_run(f"{server.bucket}/a/run"), open_run(run_directory))


def test_a_large_trace_is_read_in_pieces(server: Server, large: Path, upload: Upload, same: Same) -> None:
    url = f"{server.bucket}/large/{large.name}"
    upload(large, url)
    data = large.read_bytes()
    with place(url).open("rb") as file:
        assert file.read(10) == data[:10]
        assert file.seek(5_000_000) == 5_000_000
        assert file.read(100) == data[5_000_000:5_000_100]
        assert file.seek(-7, 2) == len(data) - 7
        assert file.read(100) == data[-7:]
        assert file.read(100) == b""
        file.seek(0)
        assert file.read() == data
    same(open_run(url), open_run(large))


def test_connections_that_break_are_taken_up_where_they_were(
    server: Server, cut: Callable[[int], None], large: Path, upload: Upload
) -> None:
    url = f"{server.bucket}/cut/{large.name}"
    upload(large, url)
    cut(3)
    assert place(url).read_bytes() == large.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("server", ["s3"], indirect=True)
def test_a_server_that_always_breaks_off_is_an_error(
    server: Server, cut: Callable[[int], None], large: Path, upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{server.bucket}/dead/{large.name}"
    upload(large, url)
    cut(1_000_000)
    monkeypatch.setattr("stepscope.core.paths.stream._TRIES", 2)
    size = large.stat().st_size
    with pytest.raises(BadInput, match=rf"the connection broke \(\w+\) at byte \d+ of {size}, tried 2 times"):
        place(url).read_bytes()


def test_paths_have_the_methods_of_a_path(server: Server) -> None:
    folder = place(f"{server.bucket}/methods")
    file = folder / "x.json"
    assert not file.exists()
    assert not file.is_file()
    assert not folder.is_dir()
    assert file.write_bytes(b"{}") == 2
    (folder / "deep" / "y.json").write_bytes(b"")
    assert file.exists()
    assert file.is_file()
    assert not file.is_dir()
    assert folder.is_dir()
    assert file.stat().st_size == 2
    assert [path.name for path in folder.iterdir()] == ["deep", "x.json"]
    assert [str(path) for path in folder.glob("*.json")] == [f"{server.bucket}/methods/x.json"]
    assert [path.name for path in folder.glob("*/*.json")] == ["y.json"]
    assert [path.name for path in folder.glob("**/*.json")] == ["x.json", "y.json"]
    assert (folder / "deep" / "y.json").read_bytes() == b""
    assert pickle.loads(pickle.dumps(file)).read_bytes() == b"{}"
    with pytest.raises(FileNotFoundError):
        (folder / "none").read_bytes()


def test_a_report_is_written_there_from_the_command_line(
    server: Server, ranks: Path, upload: Upload, stepscope: Command
) -> None:
    upload(ranks, f"{server.bucket}/b/ranks")
    url = f"{server.bucket}/b/out/report.json"
    done = stepscope("report", f"{server.bucket}/b/ranks", "-o", url, **server.environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads(place(url).read_bytes())["run"]["path"] == f"{server.bucket}/b/ranks"


@pytest.mark.slow
@pytest.mark.parametrize("server", ["s3"], indirect=True)
def test_worker_processes_read_from_there(server: Server, ranks: Path, upload: Upload, stepscope: Command) -> None:
    upload(ranks, f"{server.bucket}/workers")
    words = ("show", "steps", f"{server.bucket}/workers", "--format", "csv")
    apart = stepscope(*words, "--jobs", "2", **server.environment)
    assert (apart.returncode, apart.stderr) == (0, "")
    assert apart.stdout == stepscope("show", "steps", str(ranks), "--format", "csv").stdout


@pytest.mark.parametrize("lack", ["file", "bucket"])
def test_what_is_not_there_is_said(server: Server, lack: str) -> None:
    url = f"{server.bucket}/none.json" if lack == "file" else f"{server.scheme}://nowhere-at-all/none.json"
    with pytest.raises(BadInput) as caught:
        open_run(url)
    assert str(caught.value).startswith(f"{url}: there is no such file or folder\nCheck it with `")


def test_an_empty_folder_is_said(server: Server) -> None:
    (place(server.bucket) / "empty" / "readme.txt").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="a folder without a run and without traces"):
        open_run(f"{server.bucket}/empty")


@pytest.mark.parametrize("server", ["s3"], indirect=True)
def test_a_report_that_cannot_be_written_is_kept_here(server: Server, ranks: Path, stepscope: Command) -> None:
    url = f"{server.scheme}://nowhere-at-all/report.md"
    done = stepscope("report", str(ranks), "-o", url, **server.environment)
    assert done.returncode == 2
    message, kept, _ = done.stderr.split("\n", 2)
    assert message.startswith(f"stepscope: {url}: not written: there is no such ")
    copy = Path(kept.removeprefix("  A copy is kept in "))
    assert copy.read_text().startswith("# stepscope report")
    copy.unlink()


def test_an_object_that_changes_while_it_is_read_is_an_error(server: Server, large: Path, upload: Upload) -> None:
    url = f"{server.bucket}/changing/{large.name}"
    upload(large, url)
    with pytest.raises(BadInput, match="it was changed while it was read"), place(url).open("rb") as file:  # noqa: PT012
        file.read(1000)
        place(url).write_bytes(large.read_bytes()[::-1])
        file.read()


def test_bytes_stored_with_a_content_encoding_come_as_they_are_or_not_at_all(server: Server, large: Path) -> None:
    folder = place(f"{server.bucket}/encoded")
    file = folder / large.name
    options: dict[str, dict[str, Any]] = {
        "s3": {"ContentEncoding": "gzip"},
        "gs": {"fixed_key_metadata": {"content_encoding": "gzip"}},
        "abfs": {"content_settings": {"content_encoding": "gzip"}},
    }
    file.fs.pipe_file(file.path, large.read_bytes(), **options[server.scheme])  # type: ignore[union-attr]
    if server.scheme != "s3":
        with pytest.raises(BadInput, match="stored with Content-Encoding: gzip, so it cannot be read in pieces"):
            file.read_bytes()
    else:
        assert file.read_bytes() == large.read_bytes()
