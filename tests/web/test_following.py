"""A run in progress: which state it is in, and that the newest report is served."""

import json
import os
import time
from pathlib import Path

import pytest

from stepscope.core.errors import BadInput, MissingData
from stepscope.core.run import Run
from stepscope.web import Opened, following
from stepscope.web.following import Following, state_of

from .serving import answer, served


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (None, "running"),
        ({"exit_code": 0}, "ended"),
        ({"exit_code": 1}, "died"),
        ({"exit_code": None, "signal": 9}, "died"),
    ],
)
def test_how_a_job_stands(folder: Path, end: dict[str, object] | None, state: str) -> None:
    if end is not None:
        (folder / "end.json").write_text(json.dumps(end))
    assert state_of(folder) == state


def test_a_job_that_is_not_heard_of_has_died(folder: Path) -> None:
    long_ago = time.time() - 3600
    os.utime(folder / "run.json", (long_ago, long_ago))
    assert state_of(folder) == "died"


def test_newer_reports_are_served_until_the_job_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_LEAST", 0.01)
    times = iter(range(1, 10_000))

    def read() -> tuple[Run, dict[str, object]]:
        number = next(times)
        if number == 2:
            raise BadInput(folder, "is half written", next_step="look again")
        if number == 4:
            (folder / "end.json").write_text('{"exit_code": 0}')
        return Run({}), {"number": number}

    one = Following(folder, read, read())
    assert (one.document(), one.state, one.version) == ({"number": 1}, "running", 1)
    what = Opened(run=one.run, document=one.document, news=lambda: (one.state, one.version))
    with served(what) as address:
        one.start()
        _, headers, body = answer(f"{address}api/live")  # ends with the job
        assert headers["content-type"].startswith("text/event-stream")
        told = [
            json.loads(line.removeprefix("data: ")) for line in body.decode().splitlines() if line.startswith("data")
        ]
        assert told[-1]["state"] == "ended"
        assert json.loads(answer(f"{address}api/state")[2]) == told[-1]
        assert json.loads(answer(f"{address}api/report")[2])["number"] == 5  # once more after the end


def test_the_end_is_read_again_where_that_failed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_LEAST", 0.001)
    (folder / "end.json").write_text('{"exit_code": 0}')
    errors = [BadInput(folder, "is half written", next_step="look again"), MissingData("steps", how=""), OSError()]

    def read() -> tuple[Run, dict[str, object]]:
        if errors:
            raise errors.pop(0)
        return Run({}), {"number": 2}

    one = Following(folder, read, (Run({}), {"number": 1}))
    one.state = "running"
    one._follow()
    assert (one.document(), one.state, one.version) == ({"number": 2}, "ended", 2)


def test_an_end_that_cannot_be_read_is_told_all_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_LEAST", 0.001)
    (folder / "end.json").write_text('{"exit_code": 1}')

    def read() -> tuple[Run, dict[str, object]]:
        raise BadInput(folder, "is gone", next_step="look again")

    one = Following(folder, read, (Run({}), {"number": 1}))
    one.state = "running"
    one._follow()
    assert (one.document(), one.state, one.version) == ({"number": 1}, "died", 1)


def test_following_that_fails_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_LEAST", 0.001)

    def read() -> tuple[Run, dict[str, object]]:
        raise ZeroDivisionError

    one = Following(folder, read, (Run({}), {"number": 1}))
    with pytest.raises(ZeroDivisionError):
        one._follow()
    assert one.state == "stopped"


def test_a_run_that_was_over_before_has_no_news() -> None:
    with served(Opened(run=lambda: Run({}), document=dict)) as address:
        assert json.loads(answer(f"{address}api/state")[2]) == {"state": "past", "version": 1}
