"""The folder of a run."""

import re
from pathlib import Path

import pytest

from stepscope.cli._folder import run_folder
from stepscope.core.errors import BadInput


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py", "--x"], "train"),
        (["/usr/bin/python3", "-u", "src/my train.py"], "my-train"),
        (["python", "-m", "package.train", "--config", "a.py"], "train"),
        (["torchrun", "--nproc-per-node", "2", "train.py"], "train"),
        (["accelerate", "launch", "-m", "job"], "job"),
        (["./train.sh", "a"], "train.sh"),
        (["--", "/"], "job"),
        (["x" * 300 + ".py"], "x" * 60),
    ],
)
def test_it_is_named_after_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = run_folder(None, command)
    assert re.fullmatch(rf"stepscope-runs/{re.escape(name)}-\d{{8}}-\d{{6}}", folder)
    assert not Path("stepscope-runs").exists()


def test_two_runs_of_one_second_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("stepscope.cli._folder.time.strftime", lambda form: "20260401-120000")
    names = []
    for _ in range(3):
        names.append(run_folder(None, ["train.py"]))
        Path(names[-1]).mkdir(parents=True)
    base = "stepscope-runs/train-20260401-120000"
    assert names == [base, f"{base}-2", f"{base}-3"]


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    assert run_folder(str(tmp_path), ["x"]) == str(tmp_path)
    assert run_folder(str(tmp_path / "new"), ["x"]) == str(tmp_path / "new")
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="is not empty"):
        run_folder(str(tmp_path), ["x"])
    with pytest.raises(BadInput, match="is a file"):
        run_folder(str(tmp_path / "file"), ["x"])
