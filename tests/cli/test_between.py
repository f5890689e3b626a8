"""`stepscope show ANALYSIS PATH --between FROM TO`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from stepscope.analyses.memory.memory_operators import memory_operators
from stepscope.analyses.operators.operators import operators
from stepscope.cli._between import between
from stepscope.cli.main import COMMANDS
from stepscope.core import time_slice
from stepscope.core.errors import BadInput
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth

ZERO = 1_700_000_000_000_000_000


def run() -> Run:
    synth = Synth()
    for at, name in ((0, "aten::mm"), (10, "aten::add"), (20, "aten::mul")):
        start = ZERO + at * MS
        synth.add("host", name=name, kind="operator", thread="1", start=start, end=start + 8 * MS)
        synth.add("memory", time=start + 4 * MS, thread="1", device_type=0, device=-1, bytes=100 + at)
    return synth.run()


@pytest.mark.parametrize(
    ("span", "names"),
    [
        (("0ms", "28ms"), ["aten::add", "aten::mm", "aten::mul"]),
        (("9ms", "19ms"), ["aten::add"]),
        (("7ms", "10.5 ms"), ["aten::add", "aten::mm"]),
        (("8ms", "9ms"), []),
        (("0.02s", "1s"), ["aten::mul"]),
        (("20000us", f"{ZERO + 30 * MS}"), ["aten::mul"]),
    ],
)
def test_what_overlaps_the_range(span: tuple[str, str], names: list[str]) -> None:
    if not names:
        with pytest.raises(BadInput, match="nothing was recorded in that time"):
            between(run(), span)
        return
    assert sorted(operators(between(run(), span))["name"]) == names


def test_memory_of_operators_in_the_range() -> None:
    found = memory_operators(between(run(), ("9ms", "19ms")))
    assert found.select("name", "calls", "allocated_self").rows() == [("aten::add", 1, 110)]
    assert memory_operators(run())["allocated_self"].sum() == 330


@pytest.mark.parametrize(
    ("span", "why"), [(("9ms", "9ms"), "is not after"), (("x", "9ms"), "is no time"), (("-1ms", "9ms"), "is no time")]
)
def test_words_that_are_no_range(span: tuple[str, str], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        between(run(), span)


def test_on_the_command_line(corpus: Path) -> None:
    trace = corpus / "traces" / "kineto" / "unit" / "test_memory_view.1.pt.trace.json"
    words = ["show", "memory_operators", str(trace), "--between", "690us", "800us", "--format", "json"]
    done = CliRunner().invoke(COMMANDS, words)
    assert done.exit_code == 0, done.output
    names = {row["name"] for row in json.loads(done.output)["rows"]}
    assert "aten::addmm" in names
    assert "aten::nll_loss_backward" not in names


@pytest.mark.parametrize(("columns", "times"), [("step,data_wait", 0), ("step,start", 1)])
def test_when_the_run_began_is_read_for_tables_with_moments_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str, times: int
) -> None:
    asked: list[Run] = []
    monkeypatch.setattr(time_slice, "began", asked.append)
    trace = tmp_path / "trace.json"
    event = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": 1, "ts": 0, "dur": 9}
    trace.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [event]}))
    done = CliRunner().invoke(COMMANDS, ["show", "steps", str(trace), "--columns", columns])
    assert done.exit_code == 0, done.output
    assert len(asked) == times
