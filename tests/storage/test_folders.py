"""What the words of a user name."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from stepscope.core.errors import BadInput
from stepscope.storage import open_run
from stepscope.storage.workers import in_this_process

RanksIn = Callable[..., Path]
HERE = in_this_process()


def ranks(*words: str | Path) -> list[int]:
    return open_run(words, workers=HERE).optional("processes")["rank"].to_list()


@pytest.fixture
def folder(ranks_in: RanksIn) -> Path:
    """Three traces, two of which begin with "worker", and a text."""
    folder = ranks_in("traces", worker_a=0, worker_b=3, other=5)
    (folder / "about.txt").write_text("about")
    return folder


def test_a_pattern_names_files(folder: Path) -> None:
    assert ranks(f"{folder}/worker_*.json") == [0, 3]
    assert ranks(f"{folder}/worker_[b-z].json") == [3]
    assert ranks(f"{folder}/oth??.json") == [5]
    assert ranks(f"{folder.parent}/**/*.json") == [0, 3, 5]
    run = open_run(f"{folder}/w*", workers=HERE)
    assert run.path == f"{folder}/w*"


def test_a_pattern_is_relative_to_the_working_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert ranks("*.json") == [0, 3, 5]
    monkeypatch.chdir(folder.parent)
    assert ranks("tra*/other.json") == [5]


def test_a_name_with_a_star_is_a_name(folder: Path) -> None:
    (folder / "other.json").rename(folder / "o[t]*er.json")
    assert ranks(folder / "o[t]*er.json") == ranks(str(folder / "o[t]*er.json")) == [5]


def test_a_pattern_that_matches_nothing(folder: Path) -> None:
    with pytest.raises(BadInput, match="no file and no folder matches") as caught:
        open_run(f"{folder}/*.trace")
    assert f"ls {folder}" in caught.value.next_step


def test_several_words(folder: Path, ranks_in: RanksIn) -> None:
    more = ranks_in("more", rank_7=None)
    assert ranks(folder / "other.json", more, f"{folder}/worker_a*") == [0, 5, 7]
    assert open_run([folder / "other.json", more]).path == f"{folder / 'other.json'} and 1 more"


def test_what_is_named_twice_is_read_once(folder: Path) -> None:
    assert ranks(folder / "other.json", f"{folder}/*.json", str(folder / "other.json")) == [0, 3, 5]
    assert ranks(folder, f"{folder}/*.json") == [0, 3, 5]


def test_of_several_words_each_must_exist(folder: Path) -> None:
    with pytest.raises(BadInput, match="there is no such file or folder"):
        open_run([folder / "other.json", folder / "none.json"])


def test_what_is_no_trace_is_counted(folder: Path) -> None:
    (folder.parent / "empty").mkdir()
    run = open_run([f"{folder}/*", folder.parent / "empty"], workers=HERE)
    assert run.optional("processes")["rank"].to_list() == [0, 3, 5]
    assert run.optional("skipped").rows() == [
        (str(folder.parent / "empty"), "the folder is empty: not read", 1),
        (str(folder / "about.txt"), "not JSON: it begins with 'about': not read", 1),
    ]


def test_the_runs_of_two_machines_are_one_job(two_runs: tuple[Path, Path]) -> None:
    run = open_run(two_runs, workers=HERE)
    assert run.optional("processes").select("rank", "host").rows() == [(0, "n0"), (1, "n0"), (8, "n1"), (9, "n1")]
    assert run.optional("steps")["rank"].unique().sort().to_list() == [0, 1, 8, 9]
    commands = run.optional("meta").filter(pl.col("key") == "command")["value"].to_list()
    assert commands == ['["train", "n0"]', '["train", "n1"]']


def test_runs_with_the_same_rank_are_refused(two_runs: tuple[Path, Path]) -> None:
    (process,) = two_runs[1].glob("rank-00009*")
    about = process / "process.json"
    about.write_text(about.read_text().replace('"rank": 9', '"rank": 1'))
    with pytest.raises(BadInput, match="are both of rank 1") as caught:
        open_run(two_runs, workers=HERE)
    assert str(process) in str(caught.value) and "rank-00001" in str(caught.value)
    assert caught.value.next_step == f"Open one run: `stepscope report {two_runs[0]}`."
