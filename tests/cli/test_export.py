"""`stepscope export` as a person uses it: what is written, read again, and what is refused."""

import gzip
import json
import os
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from stepscope.analyses.critical_path.critical_path import critical_path
from stepscope.core.errors import MissingData
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Analysis
from stepscope.storage import open_run

from ..command import command, stepscope

pytestmark = pytest.mark.slow

ANALYSES = PluginGroup("analyses", Analysis)
TRACES = (
    "hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",  # µs since the epoch, no base
    "local/cpu_mlp/n0_17764.1795174225891984858.pt.trace.json.gz",  # a base time, Python frames, memory
    "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz",
)
PHASES = {"X": ("ts", "dur", "name", "pid", "tid"), "M": ("name", "args"), "C": ("ts", "name", "args")}


def export(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return stepscope("export", *words, cwd=cwd)


def load(path: Path) -> Any:
    raw = path.read_bytes()
    return json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw, parse_float=str)


@pytest.mark.parametrize("name", TRACES)
def test_a_real_trace_keeps_its_events_and_its_answers(corpus: Path, tmp_path: Path, name: str) -> None:
    trace, drawn = corpus / "traces" / name, tmp_path / "out.json.gz"
    done = export(str(trace), "-o", str(drawn))
    assert done.returncode == 0, done.stderr
    before, after = load(trace), load(drawn)
    count = len(before["traceEvents"])
    assert after["traceEvents"][:count] == before["traceEvents"]
    assert {**after, "traceEvents": []} == {**before, "traceEvents": []}
    assert_valid(after["traceEvents"][count:])
    again, first = open_run(drawn), open_run(trace)
    assert again.optional("skipped").drop("source").rows() == first.optional("skipped").drop("source").rows()
    for analysis, definition in ANALYSES.load().items():
        try:
            expected = definition(first)
        except MissingData:
            continue
        found = definition(again)
        if analysis == "overview":  # it counts the events of the file
            expected, found = (
                table.filter(~pl.col("what").str.starts_with("rows recorded")) for table in (expected, found)
            )
        assert_frame_equal(found, expected, check_exact=True)


def test_what_several_overlays_lack_is_said_once(corpus: Path, tmp_path: Path) -> None:
    trace = corpus / "traces/hta/mixed_files/rank_non_gpu.json.gz"
    done = export(str(trace), "-o", "out.json", cwd=tmp_path)
    assert done.returncode == 0
    assert "not drawn: gaps, counters: no device work in this run" in done.stderr
    assert done.stderr.count("no device work") == 1
    done = export(str(trace), "-o", "out.json", "--overlay", "gaps,counters", "--force", cwd=tmp_path)
    assert done.stderr.count("no device work") == 1


def assert_valid(events: list[dict[str, Any]]) -> None:
    """The events that were added are as viewers want them: every track named, arrows in pairs, slices side by side."""
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    slices: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events:
        assert all(key in event for key in PHASES.get(event["ph"], ("ts", "id")))
        if event["ph"] == "X":
            start = pl.Series([event["ts"]]).cast(pl.Decimal(38, 3))[0]
            slices.setdefault((event["pid"], event["tid"]), []).append((start, start + type(start)(event["dur"])))
    assert set(slices) == named
    for spans in slices.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    tails = [event["id"] for event in events if event["ph"] == "s"]
    assert tails == [event["id"] for event in events if event["ph"] == "f"]
    assert len(set(tails)) == len(tails)


def test_times_are_those_of_the_traces_own_clock(corpus: Path, tmp_path: Path) -> None:
    trace, drawn = corpus / "traces" / TRACES[1], tmp_path / "out.json"
    export(str(trace), "--overlay", "critical-path", "-o", str(drawn))
    path, document = critical_path(open_run(trace)), load(drawn)
    base = int(document["baseTimeNanoseconds"])
    slices = [event for event in document["traceEvents"] if event.get("cat") == "stepscope" and event["ph"] == "X"]
    found = [base + int(event["ts"].replace(".", "")) for event in slices]
    assert found == path["start"].to_list()
    marker = next(event for event in document["traceEvents"] if str(event.get("name")).startswith("ProfilerStep"))
    assert marker["ts"] == slices[0]["ts"]


def test_a_damaged_trace_is_repaired(corpus: Path, tmp_path: Path) -> None:
    for name in (
        "truncated.json",
        "truncated.json.gz",
        "bare_na.json",
        "nan_infinity.json",
        "utf16.json",
        "two_documents.json",
    ):
        drawn = tmp_path / f"{name}.out.json"
        done = export(str(corpus / "traces" / "malformed" / name), "-o", str(drawn))
        assert done.returncode == 0, done.stderr
        assert any(event.get("cat") == "stepscope" for event in load(drawn)["traceEvents"])
        assert open_run(drawn).optional("skipped").filter(pl.col("reason").str.contains("JSON|NaN")).is_empty()


def test_what_is_there_is_not_written_over(corpus: Path, tmp_path: Path) -> None:
    trace = str(corpus / "traces" / TRACES[0])
    assert export(trace, "--overlay", "gaps", cwd=tmp_path).returncode == 0
    (written,) = tmp_path.iterdir()
    assert written.name == "benchmark_result_2869224_1695835535_trace.overlay.json.gz"
    again = export(trace, "--overlay", "gaps", cwd=tmp_path)
    assert again.returncode == 2 and "already exists\n  add --force" in again.stderr
    assert export(trace, "--overlay", "gaps", "--force", cwd=tmp_path).returncode == 0


def test_several_traces_get_a_file_each(corpus: Path, tmp_path: Path) -> None:
    folder = str(corpus / "traces" / "local" / "gloo_ddp2")
    refused = export(folder, "-o", "one.json", cwd=tmp_path)
    assert refused.returncode == 2 and "2 traces do not fit into one file" in refused.stderr
    assert export(folder, "-o", "drawn/", cwd=tmp_path).returncode == 0
    assert len(list((tmp_path / "drawn").glob("*.overlay.json.gz"))) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.json"], "nowhere.json: there is no such file"),
        (["{trace}", "--overlay", "gap"], "did you mean gaps?"),
        (["{trace}", "--overlay", ","], "--overlay: names nothing"),
        (["{trace}", "-o", "{trace}", "--force"], "is the trace itself"),
        (["{trace}", "-o", "no/such/folder/x.json"], "there is no such folder"),
        (["{trace}", "-o", "s3://bucket/x.json"], "to a local file only"),
        (["{trace}", "-o", "x.xyz"], "a trace is JSON, not .xyz\n  choose a name that ends in .json or .json.gz"),
        (["{cpu}", "--overlay", "gaps"], "nothing of this can be drawn"),
    ],
)
def test_mistakes(corpus: Path, tmp_path: Path, words: list[str], message: str) -> None:
    trace = tmp_path / "trace.json.gz"
    trace.write_bytes((corpus / "traces" / TRACES[0]).read_bytes())
    names = {"trace": str(trace), "cpu": str(corpus / "traces" / TRACES[1])}
    done = export(*(word.format(**names) for word in words), cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_stop_leaves_no_file(tmp_path: Path) -> None:
    trace, folder = tmp_path / "trace.json", tmp_path / "out"
    event = '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": %d, "dur": 1}'
    trace.write_text('{"traceEvents": [' + ",".join(event % (2 * n) for n in range(300_000)) + "]}")
    folder.mkdir()
    words = command("export", trace, "-o", folder / "o.json", "--no-cache")
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not os.listdir(folder):
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        told = process.communicate()[1]
    assert process.returncode == 130, told
    assert os.listdir(folder) == []


def test_a_file_of_another_format_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    timeline = tmp_path / "timeline.raw.json.gz"
    timeline.write_bytes(gzip.compress(json.dumps([[0, 1, 1024, 0]]).encode()))
    done = export(str(timeline), cwd=tmp_path)
    assert done.returncode == 2
    assert "tracks can be added to traces in Chrome's JSON format only" in done.stderr
    assert f"stepscope view {timeline}" in done.stderr.replace("\n", " ")
    assert list(tmp_path.iterdir()) == [timeline]
