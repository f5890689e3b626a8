"""Traces on web servers, good and bad ones: a real server, whose behavior is the first part of each path."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from stepscope.core.errors import BadInput
from stepscope.core.paths import place, remote
from stepscope.core.run import Run
from stepscope.storage import open_run

from ..command import command

pytestmark = pytest.mark.usefixtures("alone")

Same = Callable[[Run, Run], None]
Command = Callable[..., "subprocess.CompletedProcess[str]"]
TOKEN = "a+b/c=="
PASSWORD = "p@ss"


@pytest.fixture(scope="module", autouse=True)
def files(web_folder: Path, ranks: Path, large: Path, run_directory: Path) -> None:
    """What the server has: the folders ranks and run, and a large trace."""
    for name, source in (("ranks", ranks), ("run", run_directory), (large.name, large)):
        (web_folder / name).symlink_to(source)
    (web_folder / "empty.json").write_bytes(b"")


def test_a_trace_a_folder_and_a_run_are_read_as_here(web: str, ranks: Path, run_directory: Path, same: Same) -> None:
    same(open_run(f"{web}/plain/ranks/rank_1.json.gz"), open_run(ranks / "rank_1.json.gz"))
    same(open_run(f"{web}/plain/ranks"), open_run(ranks))
    same(open_run(f"{web}/plain/ranks/"), open_run(ranks))
    same(open_run(f"{web}/plain/ranks/rank_*.json*"), open_run(ranks))
    same(open_run(f"{web}/plain/run"), open_run(run_directory))


@pytest.mark.parametrize(
    "behavior", ["plain", "cut", "get-only", "whole", "whole-chunked", "whole-cut", "whole-chunked-cut", "encoded"]
)
def test_every_byte_comes(behavior: str, web: str, large: Path) -> None:
    url = f"{web}/{behavior}/{large.name}"
    with place(url).open("rb") as file:
        assert file.read(70_000) == large.read_bytes()[:70_000]
    assert place(url).read_bytes() == large.read_bytes()
    assert place(f"{web}/{behavior}/empty.json").read_bytes() == b""


@pytest.mark.parametrize(
    ("behavior", "message"),
    [
        ("dead", r"the connection broke \(ClientPayloadError\) at byte 0 of \d+, tried 2 times"),
        ("short", r"65536 bytes came instead of 131072 at byte 0 of \d+, tried 2 times"),
        ("whole-dead", r"the connection broke"),
    ],
)
def test_a_short_answer_is_never_the_end_of_the_file(
    behavior: str, message: str, web: str, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.core.paths.stream._TRIES", 2)
    monkeypatch.setattr("stepscope.core.paths.web._TRIES", 2)
    with pytest.raises(BadInput, match=message):
        place(f"{web}/{behavior}/{large.name}").read_bytes()


def test_a_file_that_changes_while_it_is_read_is_an_error(web: str, large: Path) -> None:
    with pytest.raises(BadInput, match=f"/changing/{large.name}: it was changed while it was read"):
        place(f"{web}/changing/{large.name}").read_bytes()


def test_a_signed_url_is_used_and_its_signature_shown_nowhere(
    web: str, large: Path, stepscope: Command, tmp_path: Path
) -> None:
    url = f"{web}/signed/ranks/rank_0.json"
    page = tmp_path / "report.html"
    done = stepscope("report", f"{url}?token={quote(TOKEN, safe='')}&x=", "-o", str(page))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert url in page.read_text()
    assert "token=" not in page.read_text()
    assert place(f"{web}/signed/{large.name}?token={quote(TOKEN, safe='')}").read_bytes() == large.read_bytes()
    done = stepscope("report", f"{url}?token=wrong%2Bsecret")
    assert done.returncode == 2
    assert done.stderr.startswith(f"stepscope: {url}: access was refused (HTTP 403)\n")
    assert "wrong" not in done.stderr


def test_a_pattern_may_be_signed(web: str, ranks: Path, same: Same) -> None:
    same(open_run(f"{web}/signed/ranks/*.gz?token={quote(TOKEN, safe='')}"), open_run(ranks / "rank_1.json.gz"))


def test_a_password_is_used_and_shown_nowhere(web: str, stepscope: Command) -> None:
    host = web.removeprefix("http://")
    path = "login/ranks/rank_0.json"
    done = stepscope("report", f"http://anna:{quote(PASSWORD)}@{host}/{path}", "--format", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["run"]["path"] == f"{web}/{path}"
    assert "anna" not in done.stdout
    done = stepscope("report", f"http://anna:wrong@{host}/{path}")
    assert done.stderr.startswith(f"stepscope: {web}/{path}: access was refused (HTTP 401)\n")
    assert "anna" not in done.stderr
    assert "wrong" not in done.stderr


def test_a_password_may_come_from_netrc(web: str, stepscope: Command, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login anna password {PASSWORD}\n")
    netrc.chmod(0o600)
    done = stepscope("report", f"{web}/login/ranks/rank_0.json", NETRC=str(netrc))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("forbidden/x.json", "access was refused (HTTP 403)\nGive a signed URL"),
        ("nothing/x.json", "there is no such file or folder\nCheck it with `curl -I http://"),
        ("busy/x.json", "the server failed (HTTP 503), also when asked again\nTry again later."),
        ("no-listing/ranks", "access was refused (HTTP 403)"),
        ("login-page/ranks", "lists no files"),
        ("login-page/x.json", "not JSON: it begins with '<html>Please log in."),
    ],
)
def test_what_cannot_be_read_is_said(path: str, message: str, web: str) -> None:
    with pytest.raises(BadInput) as caught:
        open_run(f"{web}/{path}")
    assert message in str(caught.value)


def test_a_server_that_does_not_answer_is_said(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.core.paths.remote._WAIT", 0.5)
    with pytest.raises(BadInput, match="no answer in time"):
        open_run(f"{web}/silent/ranks/rank_0.json")


@pytest.mark.slow
def test_ctrl_c_ends_a_wait_at_once(web: str, web_folder: Path) -> None:
    asked = web_folder / "asked"
    asked.unlink(missing_ok=True)
    words = command("report", f"{web}/silent/ranks/rank_0.json")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not asked.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, said = process.communicate(timeout=60)
    assert time.monotonic() - began < remote._WAIT / 2
    assert process.returncode != 0
    assert "Traceback" not in said


def test_nobody_listens(stepscope: Command) -> None:
    done = stepscope("report", "http://127.0.0.1:9/x.json?token=secret")
    assert done.returncode == 2
    assert done.stderr.startswith("stepscope: http://127.0.0.1:9/x.json: the server cannot be reached (Connection")
    assert "secret" not in done.stderr


def test_a_report_is_not_written_to_a_web_server(stepscope: Command, ranks: Path, web: str) -> None:
    done = stepscope("report", str(ranks), "-o", f"{web}/report.html")
    assert done.returncode == 2
    assert done.stderr.startswith(f"stepscope: {web}/report.html: a web server takes no files\n")
