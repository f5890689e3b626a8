"""Folders that hold several runs."""

import json
from pathlib import Path

import pytest

from stepscope.run_format.files import RUN
from stepscope.storage.listing import runs_in


def run(folder: Path, name: str, **told: object) -> Path:
    made = folder / name
    made.mkdir()
    (made / RUN).write_text(json.dumps({"format": "stepscope-run", "version": 1, **told}), encoding="utf-8")
    return made


def test_the_newest_run_comes_first(tmp_path: Path) -> None:
    run(tmp_path, "a", command=["python", "train.py"], started_epoch_ns=5)
    run(tmp_path, "b", command=["python", "train.py"], started_epoch_ns=9)
    (tmp_path / "notes").mkdir()
    (tmp_path / "readme.txt").write_text("no run")
    found = runs_in(str(tmp_path))
    assert [one.path.name for one in found] == ["b", "a"]
    assert found[0].command == ("python", "train.py")
    assert found[0].started == 9


def test_a_damaged_description_is_listed_without_what_it_lacks(tmp_path: Path) -> None:
    (run(tmp_path, "a") / RUN).write_text("{", encoding="utf-8")
    (found,) = runs_in(str(tmp_path))
    assert (found.command, found.started) == ((), None)


def test_a_run_a_trace_and_nothing_are_no_lists(tmp_path: Path) -> None:
    made = run(tmp_path, "a")
    assert runs_in(str(made)) == []
    assert runs_in(str(tmp_path / "nowhere")) == []
    assert runs_in("s3://bucket/runs") == []
    (tmp_path / "rank-0.pt.trace.json").write_text("{}")
    assert runs_in(str(tmp_path)) == [], "a folder of traces, whatever lies below it"


def test_no_word_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert len(runs_in(".")) == 1
    assert runs_in("") == []
