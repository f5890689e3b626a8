"""What fails unexpectedly is told in its place; everything else of a report stays, and the exit code says it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from stepscope.analyses.steps import phases as phases_module
from stepscope.cli import main
from stepscope.core.boundary import RAISE
from stepscope.core.errors import ViewFailed
from stepscope.core.finding import Finding, Rule
from stepscope.core.plugins import PluginGroup
from stepscope.core.report import Block, Section
from stepscope.core.run import Analysis, Run
from stepscope.core.synth import Synth
from stepscope.report import assemble
from stepscope.report import diagnose as diagnosing


def _breaks(run: Run) -> Iterator[Finding]:
    raise ZeroDivisionError("of all things")


def _breaks_too(run: Run) -> list[Block]:
    raise IndexError("index 7 is out of bounds")


BROKEN_RULE = Rule(check=_breaks, example=lambda synth, fixed: None)
BROKEN_SECTION = Section(title="Broken", build=_breaks_too, order=5)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RAISE, raising=False)
    more: dict[int, dict[str, object]] = {
        id(diagnosing.RULES): {"broken": BROKEN_RULE}, id(assemble.SECTIONS): {"broken": BROKEN_SECTION},
    }  # fmt: skip
    load = PluginGroup.load
    monkeypatch.setattr(PluginGroup, "load", lambda group: {**load(group), **more.get(id(group), {})})


def _run() -> Run:
    synth = Synth()
    for step in range(6):
        synth.step(step, step * 100, step * 100 + 100, data_wait=60, forward=20, backward=10, optimizer=5)
    return synth.run()


@pytest.mark.usefixtures("broken")
def test_a_rule_and_a_section_that_fail_leave_the_rest() -> None:
    report = assemble.assemble(_run())
    assert report.failed == ("rule broken", "section broken")
    told = {unchecked.rule: unchecked.missing for unchecked in report.unchecked}
    assert re.fullmatch(r"this view failed: ZeroDivisionError: of all things \(test_boundary\.py:\d+\)", told["broken"])
    assert report.verdict.bound == "input"
    assert [finding.rule for finding in report.findings]
    part = next(part for part in report.parts if part.name == "broken")
    assert "IndexError: index 7" in part.missing
    assert "please report it" in part.how


@pytest.mark.usefixtures("broken")
def test_without_the_boundary_it_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RAISE, "1")
    with pytest.raises(ZeroDivisionError):
        assemble.assemble(_run())


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "a.pt.trace.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5}
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    return path


@pytest.mark.usefixtures("broken")
def test_the_exit_code_of_a_report_says_it(trace: Path) -> None:
    result = CliRunner().invoke(main.COMMANDS, ["report", str(trace), "--full", "--no-cache"])
    assert result.exit_code == main.FAILED
    assert "rule broken, section broken" in result.stderr
    assert result.stdout


def test_show_says_what_failed(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RAISE, raising=False)
    broken = Analysis(compute=_no_table, columns=phases_module.ANALYSIS.columns)
    monkeypatch.setattr(phases_module, "ANALYSIS", broken)
    result = CliRunner().invoke(main.COMMANDS, ["show", "phases", str(trace), "--no-cache"])
    assert result.exit_code == main.FAILED
    assert "this view failed: KeyError: 'nothing'" in result.stderr
    assert not isinstance(result.exception, ViewFailed)


def _no_table(run: Run) -> pl.DataFrame:
    raise KeyError("nothing")
