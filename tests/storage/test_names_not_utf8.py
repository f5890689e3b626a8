"""A trace whose name holds bytes that are not UTF-8 is read like any other."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from stepscope.cli.main import COMMANDS

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / os.fsdecode(b"\xff\xfe.pt.trace.json")
    try:
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [EVENT]}))
    except OSError:
        pytest.skip("this file system takes no such name")
    return path


@pytest.mark.parametrize("words", ["report", "report --format json", "show operators", "show skipped --format csv"])
def test_it_is_read(words: str, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCOPE_RAISE", "1")
    result = CliRunner().invoke(COMMANDS, [*words.split(), str(trace), "--no-cache"], catch_exceptions=False)
    assert result.exit_code == 0


def test_a_file_that_holds_the_report_can_be_written(trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    words = ["report", str(trace), "--no-cache", "-o", str(target)]
    assert CliRunner().invoke(COMMANDS, words, catch_exceptions=False).exit_code == 0
    assert json.loads(target.read_text())["run"]["path"].endswith(".pt.trace.json")
