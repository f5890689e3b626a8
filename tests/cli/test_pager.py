"""A long report goes through a pager on a terminal, and nowhere else."""

import os
import pty
import sys
from pathlib import Path

import pytest

from stepscope.cli._pager import paged_output, pager


def shown(text: str, tmp_path: Path, *, lines: str = "10") -> tuple[str, bool]:
    """What a terminal of ten lines gets, and whether a pager was started: it leaves a mark and copies its input."""
    mark = tmp_path / "paged"
    script = tmp_path / "pager"
    script.write_text(f"#!/bin/sh\ntouch {mark}\nexec cat\n")
    script.chmod(0o755)
    program = (
        "import sys\nfrom stepscope.cli._pager import paged_output\n"
        f"with paged_output(sys.stdout) as stream:\n    stream.write({text!r})\n"
    )
    environment = {**os.environ, "PAGER": str(script), "LINES": lines, "COLUMNS": "80"}
    return on_a_terminal([sys.executable, "-c", program], environment), mark.exists()


def on_a_terminal(command: list[str], environment: dict[str, str]) -> str:
    pid, master = pty.fork()
    if pid == 0:
        os.execve(command[0], command, environment)
    pieces = []
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(master)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return b"".join(pieces).decode().replace("\r\n", "\n")


def test_what_is_longer_than_the_terminal_is_paged(tmp_path: Path) -> None:
    text = "line\n" * 30
    assert shown(text, tmp_path) == (text, True)


def test_what_fits_is_not(tmp_path: Path) -> None:
    assert shown("line\n" * 5, tmp_path) == ("line\n" * 5, False)


def test_a_pager_that_is_left_early_is_no_failure(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom stepscope.cli._pager import paged_output\n"
        "with paged_output(sys.stdout) as stream:\n    stream.write('line\\n' * 200_000)\n"
    )
    environment = {**os.environ, "PAGER": "head -n 1", "LINES": "10"}
    assert on_a_terminal([sys.executable, "-c", program], environment) == "line\n"


@pytest.mark.parametrize(
    ("asked", "command"),
    [("", ()), ("no-such-program-here", ()), ("'", ()), ("cat -u", ("cat", "-u")), ("  ", ())],
)
def test_which_pager(monkeypatch: pytest.MonkeyPatch, asked: str, command: tuple[str, ...]) -> None:
    monkeypatch.setenv("PAGER", asked)
    assert pager() == command


def test_less_is_asked_to_keep_colors_and_to_leave_short_texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PAGER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pager() == ()
    (tmp_path / "less").write_text("#!/bin/sh\n")
    (tmp_path / "less").chmod(0o755)
    assert pager() == ("less", "-RFX")


def test_without_a_pager_the_text_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAGER", "")
    with paged_output(sys.stdout) as stream:
        assert stream.isatty()
        stream.write("line\n" * 500)
    assert capsys.readouterr().out == "line\n" * 500
