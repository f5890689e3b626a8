"""`stepscope report FOLDER` with runs inside: a list of them."""

import json
import shutil
from pathlib import Path

import pytest

from ..command import stepscope
from ..export.recorded import recorded


@pytest.mark.slow
def test_a_folder_of_runs_is_listed(tmp_path: Path) -> None:
    run = recorded(tmp_path / "one", "fork", trace=False)
    shutil.copytree(run, tmp_path / "runs" / "a")
    (tmp_path / "runs" / "b").mkdir(parents=True)
    (tmp_path / "runs" / "b" / "run.json").write_text("{}")
    done = stepscope("report", tmp_path / "runs", "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["runs"]}
    assert rows["a"]["bound"]
    assert rows["b"]["problem"]
    text = stepscope("report", tmp_path / "runs")
    assert text.stdout.splitlines()[0].split()[:1] == ["run"]
