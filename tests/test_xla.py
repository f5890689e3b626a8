"""A profile of XLA, as JAX writes it: what it is, what is shown of it, and what is said of the rest."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.core.errors import BadInput
from stepscope.core.run import Run
from stepscope.report.diagnose import diagnose
from stepscope.storage import open_run

EVENTS = (
    '{"ph":"M","pid":7,"name":"process_name","args":{"name":"/host:CPU"}}',
    '{"ph":"X","pid":7,"tid":1,"ts":57.195,"dur":2455.877,"name":"train","args":{"step_num":"0"}}',
    '{"ph":"X","pid":7,"tid":2,"ts":178.75499999999999,"dur":534.742,"name":"fusion","args":{"hlo_op":"fusion"}}',
    "{}",
)
TEXT = f'{{"displayTimeUnit":"ns","metadata":{{"highres-ticks":true}},"traceEvents":[{",".join(EVENTS)}]}}'


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "plugins/profile/2026_11_20/n0.trace.json.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(TEXT.encode()))
    return path


def opened(trace: Path) -> Run:
    return open_run(trace)


def stepscope(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stepscope", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_its_events_are_read_as_they_are(trace: Path) -> None:
    run = opened(trace)
    assert run.optional("processes")["framework"].to_list() == ["xla"]
    assert run.optional("host").select("name", "kind", "start", "end").rows() == [
        ("train", "other", 57_195, 2_513_072), ("fusion", "other", 178_755, 713_497),
    ]  # fmt: skip


def test_the_verdict_says_what_it_is_and_what_to_do(trace: Path) -> None:
    why = diagnose(opened(trace)).verdict.why_unknown
    assert why.startswith("this is a profile of XLA (JAX or TensorFlow), whose events are read as they are")
    assert "`stepscope show host PATH`" in why
    report = stepscope("report", trace).stdout
    assert "--trace 10:13" not in report, "what records PyTorch records nothing here"


def test_a_table_that_it_cannot_fill_says_so(trace: Path) -> None:
    done = stepscope("show", "operators", trace)
    assert done.returncode == 2
    assert "this is a profile of XLA (JAX or TensorFlow)" in done.stderr


def test_the_folder_that_was_given_to_the_profiler_leads_to_the_trace(trace: Path) -> None:
    with pytest.raises(BadInput) as caught:
        open_run(trace.parents[3])
    assert f"`stepscope report {trace.parent}`" in caught.value.next_step


def test_chrome_and_torch_also_write_highres_ticks(tmp_path: Path) -> None:
    for extra in ('"schemaVersion":1,', ""):
        path = tmp_path / f"{len(extra)}.json"
        other = TEXT.replace('{"displayTimeUnit"', f'{{{extra}"displayTimeUnit"')
        path.write_text(other if extra else other.replace(":true}", ':true,"os-name":"Linux"}'))
        assert open_run(path).optional("processes")["framework"].to_list() == [None]
