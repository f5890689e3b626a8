"""`stepscope view` as a user starts it."""

import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

from ..cli.test_compare import trace
from ..cli.test_opening import write
from ..command import command, stepscope
from .serving import answer


def test_it_prints_its_address_serves_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    write(tmp_path, 2)
    words = command("view", tmp_path, "--no-browser")
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        found = re.match(r"(http://127\.0\.0\.1:\d+/)  \(Ctrl-C ends it\)$", line)
        assert found, (line, process.stderr.read() if process.poll() is not None and process.stderr else "")
        assert answer(found[1])[0] == 200
        assert b'"schema":"stepscope-report"' in answer(f"{found[1]}api/report")[2]
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said


def test_two_runs_are_served_beside_their_comparison(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a.json", 1000), trace(tmp_path / "b.json", 500)
    words = command("view", "--compare", a, b, "--no-browser")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert process.stdout
        address = process.stdout.readline().partition(" ")[0]
        assert b'"schema":"stepscope-page"' in answer(f"{address}api/report")[2]
        for name, path in (("a", a), ("b", b)):
            assert json.loads(answer(f"{address}{name}/api/report")[2])["run"]["path"] == str(path)
            assert json.loads(answer(f"{address}{name}/api/tables/steps")[2])["height"] == 15
            assert answer(f"{address}{name}/")[0] == 200
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_two_paths_of_one_rank_are_told_how_to_be_compared(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a.json", 1000), trace(tmp_path / "b.json", 500)
    done = stepscope("view", a, b, "--no-browser")
    assert done.returncode == 2
    assert f"compare them: `stepscope view --compare {a} {b}`" in done.stderr
    done = stepscope("view", "--compare", a)
    assert done.returncode == 2
    assert "--compare: takes two runs, and 1 PATHs were named" in done.stderr


def test_where_it_cannot_listen_is_said_before_the_work(tmp_path: Path) -> None:
    done = stepscope("view", tmp_path / "nothing.json", "--host", "203.0.113.7")
    assert done.returncode == 2
    assert "203.0.113.7: cannot listen there" in done.stderr
    assert "leave out --host" in done.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = stepscope("view", tmp_path / "nothing.json", "--port", str(port))
    assert done.returncode == 2
    assert f"127.0.0.1:{port}: cannot listen there: Address already in use" in done.stderr
    assert "leave out --port" in done.stderr


def test_what_cannot_be_read_is_said_on_the_page_and_in_the_terminal(tmp_path: Path) -> None:
    """The page is open before the trace is read to its end."""
    path = tmp_path / "broken.json"
    path.write_text('{"traceEvents": "none"}')
    expected = stepscope("report", path)
    process = subprocess.Popen(
        command("view", path, "--no-browser"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout
    address = process.stdout.readline().partition(" ")[0]
    status, _, body = answer(f"{address}api/first")
    _, said = process.communicate(timeout=60)
    told = expected.stderr.replace("`stepscope report ", "`stepscope view ")
    assert (process.returncode, said) == (2, told)
    assert status == 500
    why = json.loads(body)["error"]
    assert ["stepscope: " + why.splitlines()[0], *why.splitlines()[1:]] == [line.strip() for line in told.splitlines()]


def test_a_path_that_is_not_there_opens_no_page(tmp_path: Path) -> None:
    done = stepscope("view", tmp_path / "nothing.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no such file or folder" in done.stderr


def test_the_first_screen_is_served_before_the_rest(tmp_path: Path) -> None:
    path = trace(tmp_path / "a.json", 1000)
    process = subprocess.Popen(
        command("view", path, "--no-browser"), stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        assert process.stdout
        address = process.stdout.readline().partition(" ")[0]
        first = json.loads(answer(f"{address}api/first")[2])
        whole = json.loads(answer(f"{address}api/report")[2])
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert not first["whole"]
    sections = first["document"].pop("sections")
    assert [section for section in whole.pop("sections") if section in sections] == sections
    assert first["document"] == whole
    assert "summary" in [section["name"] for section in sections]
