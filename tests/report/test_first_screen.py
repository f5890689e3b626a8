"""What a verdict rests on is told beside it: lost input, ranks that were not opened, idle time without a cause."""

import gzip
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from stepscope.analyses.bound.lib.bound_shares import record_without
from stepscope.analyses.bound.lib.device_shares import inflated_by
from stepscope.core.report import Lines, Table, Text
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.render.format import title_text
from stepscope.render.json import report_document
from stepscope.render.markdown import table_markdown
from stepscope.render.tables import print_table
from stepscope.render.terminal import console_for
from stepscope.render.terminal_card import print_card, print_report
from stepscope.render.verdict import sentence
from stepscope.report.assemble import SECTIONS, assemble
from stepscope.report.diagnose import RULES, diagnose
from stepscope.storage import open_run

from ..examples import example


def summary(run: Run) -> str:
    stream = io.StringIO()
    print_card(console_for(stream), assemble(run))
    return " ".join(stream.getvalue().split())


def trace(path: Path, rank: int, *, part: float = 1.0) -> Path:
    """A packed trace of four steps, of which the first `part` is written."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 1000 * step + start, "dur": dur}
        for step in range(4)
        for name, start, dur in ((f"ProfilerStep#{step}", 0, 1000), *((f"aten::mm{i}", 9 * i, 8) for i in range(100)))
    ]
    text = json.dumps({"distributedInfo": {"rank": rank, "world_size": 128}, "traceEvents": events})
    packed = gzip.compress(text.encode(), compresslevel=1)
    path.write_bytes(packed[: int(len(packed) * part)])
    return path


def test_a_whole_trace_has_lost_nothing(tmp_path: Path) -> None:
    found = summary(open_run(str(trace(tmp_path / "a.json.gz", 0))))
    assert "covers the rest" not in found
    assert "could not be read" not in found


def test_a_trace_that_is_cut_off_says_so_below_the_verdict(tmp_path: Path) -> None:
    run = open_run(str(trace(tmp_path / "a.json.gz", 0, part=0.6)))
    words = "The trace a.json.gz is cut off: this report covers what could be read."
    assert words in summary(run)
    document = report_document(assemble(run))
    assert words in json.dumps(document)
    (loss,) = [block for block in SECTIONS.get("summary").build(run)[1:2] if isinstance(block, Text)]
    assert loss.text == words


def test_of_several_traces_the_one_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for rank in range(2):
        trace(tmp_path / f"rank{rank}.json.gz", rank)
    trace(tmp_path / "rank2.json.gz", 2, part=0.001)
    found = summary(open_run(str(tmp_path)))
    assert "1 of 3 traces could not be read: rank2.json.gz: " in found


def test_damage_and_unread_windows_are_counted() -> None:
    synth = Synth().add("processes", source="run/a")
    for number in range(2):
        reason = "the gzip stream is damaged: what could be unpacked was read"
        synth.add("skipped", source=f"run/a/{number}.json", reason=reason, count=1)
    synth.add("skipped", source="run/a", reason="trace of window 3, it is empty: not read", count=1)
    synth.add("skipped", source="notes.txt", reason="not a trace: not read", count=1)
    found = summary(synth.run())
    assert "2 traces are damaged, the first 0.json: this report covers what could be read." in found
    assert "1 traced window could not be read, the first: trace of window 3, it is empty." in found
    assert "notes.txt" not in found


def test_ranks_that_were_not_opened_are_told() -> None:
    synth = Synth()
    for rank in range(2):
        synth.add("processes", rank=rank, pid=str(rank), world_size=128)
        for step in range(12):
            synth.step(step, step * 50, step * 50 + 50, data_wait=30, forward=10, backward=10, rank=rank)
    run = synth.run()
    assert sentence(diagnose(run).verdict).startswith(
        "Data-loading bound on both ranks (2 of 128 ranks opened): 60 % of "
    )
    stream = io.StringIO()
    print_report(console_for(stream), assemble(run))
    assert "2 of 128 ranks opened." in stream.getvalue()


ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def marked_steps(synth: Synth) -> Iterator[int]:
    """The starts of four steps of 100 ms, each marked."""
    for step in range(4):
        synth.host(f"ProfilerStep#{step}", "annotation", 100 * step, 100 * step + 100)
        yield 100 * step


def idle() -> Run:
    """Steps of 100 ms: 30 of computing, 20 of exposed communication, 50 idle."""
    synth = Synth()
    for start in marked_steps(synth):
        synth.kernel(start, start + 30)
        synth.kernel(start + 30, start + 50, ALL_REDUCE, stream="9")
    return synth.run()


@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        (("shapes",), "record a window without shapes: `"),
        (("stacks", "memory"), "record a window without stacks and memory: `"),
        (("stacks", "shapes", "memory"), "record a window without stacks, shapes and memory: `"),
    ],
)
def test_what_slows_the_host_is_what_was_recorded(recorded: tuple[str, ...], words: str) -> None:
    assert record_without(recorded).startswith(words)
    synth = Synth().host("aten::mm", "operator", 0, 1, input_dims="[[2]]" if "shapes" in recorded else None)
    if "stacks" in recorded:
        synth.host("train.py(1): main", "python", 0, 1)
    if "memory" in recorded:
        synth.add("memory", thread="1", time=0, device_type=1, device=0, bytes=64, address=1)
    assert inflated_by(synth.run(), 0) == recorded


def test_idle_time_of_a_trace_that_can_be_trusted_is_the_limit_itself() -> None:
    verdict = diagnose(idle()).verdict
    assert (verdict.bound, verdict.likely) == ("host", False)


def test_a_phase_that_launched_nothing_has_no_time_on_the_device() -> None:
    synth = Synth()
    for step in range(4):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        synth.host("enumerate(DataLoader)#_Iter.__next__", "annotation", start, start + 20)
        synth.host("aten::mm", "operator", start + 30, start + 40)
        synth.host("cudaLaunchKernel", "runtime", start + 31, start + 32, correlation=step)
        synth.kernel(start + 40, start + 60, correlation=step)
    _, words, table = SECTIONS.get("phases").build(synth.run())
    assert isinstance(words, Text) and "leaves these out" in words.text
    assert isinstance(table, Table)
    assert {row[0]: row[2] for row in table.rows}["data wait"] is None
    assert any(row[2] for row in table.rows)


def test_the_breakdown_says_where_collectives_are() -> None:
    *_, text = SECTIONS.get("step-breakdown").build(idle())
    assert isinstance(text, Text)
    assert text.text.startswith("Here, as in TensorBoard, collectives on a device count as kernels")


def test_without_steps_nothing_is_called_a_step() -> None:
    run = Synth().kernel(0, 40).kernel(60, 100).run()
    (text,) = [block for block in SECTIONS.get("workload").build(run) if isinstance(block, Text)]
    assert "From first to last device work: {} compute" in text.text
    assert "mean step" not in text.text


def test_evidence_of_a_trace_without_steps_speaks_of_the_recorded_time() -> None:
    synth = Synth().kernel(0, 40).kernel(40, 100, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream="9")
    (block,) = diagnose(synth.run()).findings
    assert [row.label for row in block.finding.evidence] == [
        "exposed communication", "exposed all_reduce", "compute share",
    ]  # fmt: skip
    assert title_text(block.finding.title) == "all_reduce is exposed 60 ms in total (60 %)"


@pytest.mark.parametrize("name", RULES.load())
def test_no_title_without_steps_speaks_of_a_step(name: str) -> None:
    run = example(name)
    host = run.optional("host").filter(~pl.col("name").str.starts_with("ProfilerStep#"))
    unmarked = Run({**{table: rows for table, rows in run.tables.items() if table != "steps"}, "host": host}, run.path)
    for block in diagnose(unmarked).findings:
        assert not re.search(r"\bsteps?\b", title_text(block.finding.title)), title_text(block.finding.title)
        assert not any(re.search(r"\bsteps?\b", row.label) for row in block.finding.evidence)


def test_commands_in_a_table_are_never_cut_nor_words_broken() -> None:
    how = f"{'say what it takes, ' * 20}then `stepscope run --trace 10:13 -- COMMAND`, as export_chrome_trace() cannot"
    row = ("garbage-collector, single-tensor-optimizer", "something that the run lacks", how)
    stream = io.StringIO()
    console = console_for(stream)
    console.width = 72
    print_table(console, Table("", (("rules", None), ("lack", None), ("how to record it", None)), (row,)))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 72
    assert "…" not in stream.getvalue()
    words = set(stream.getvalue().split())
    assert {"garbage-collector,", "single-tensor-optimizer", "`stepscope", "export_chrome_trace()", "10:13"} <= words


def test_commands_in_a_markdown_table_stay_code() -> None:
    table = Table("", (("how", None), ("n", "count")), (("run `stepscope run -- CMD`, or a|b `x|y` `", 1),))
    assert r"| run `stepscope run -- CMD`, or a\|b \`x\|y\` \` | 1 |" in table_markdown(table)


def waiting(*, tail: float, hidden: bool) -> Run:
    """Four steps of 100 ms, of which 40 are a data wait; the device works `tail` ms after the last step, and in half of
    the wait if `hidden`."""
    synth = Synth()
    for step in range(4):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        synth.host("enumerate(DataLoader)#_Iter.__next__", "annotation", start, start + 40)
        synth.host("aten::mm", "operator", start + 41, start + 42)
        synth.kernel(start + 40, start + 100)
        if hidden:
            synth.kernel(start, start + 20)
    synth.kernel(400, 400 + tail)
    return synth.run()


def test_where_the_device_decides_the_screen_says_whose_step_is_which() -> None:
    found = summary(waiting(tail=20, hidden=True))
    assert found.startswith("Partly data-loading bound: 19 % of each 105 ms step ")
    assert ("The mean step is 105 ms on the device (verdict, bar and findings), 100 ms on the host.") in found
    assert "█ data wait 20 ms 19 %" in found, "the bar has the share of the verdict"


def test_where_both_clocks_say_the_same_there_is_nothing_to_tell_apart() -> None:
    found = summary(waiting(tail=0.1, hidden=False))
    assert found.startswith("Partly data-loading bound: 40 % of each 100 ms step ")
    assert "in the training process" not in found


def test_one_steady_step_of_several_is_not_called_the_only_one() -> None:
    synth = Synth()
    for step in range(4):
        tags = ("warm-up",) if step < 3 else ()
        synth.step(step, 50 * step, 50 * step + 50, data_wait=30, forward=10, backward=10, tags=tags)
    stream = io.StringIO()
    print_report(console_for(stream), assemble(synth.run()))
    found = " ".join(stream.getvalue().split())
    assert "of one 50 ms step" in found
    assert "Averages outside this chart use 1 of 4 steps" in found


def test_the_bar_is_of_the_rank_that_the_verdict_is_about() -> None:
    synth = Synth()
    for rank, wait in enumerate((10, 70)):
        for step in range(12):
            start = 100 * step
            synth.step(step, start, start + 100, data_wait=wait, forward=15, backward=15, rank=rank)
    found = summary(synth.run())
    assert found.startswith("Data-loading bound on rank 1 of 2 ranks: 70 % of each 100 ms step waits for data.")
    assert "█ data wait 70 %" in found
    assert SECTIONS.get("summary").build(synth.run())[1].title == "One step of rank 1, mean"  # type: ignore[union-attr]


def test_beside_other_processes_the_first_line_says_what_to_fix_first() -> None:
    run = Synth()
    RULES.get("cpu-contention").example(run, False)
    report = assemble(run.run())
    assert report.findings[0].rule == "cpu-contention"
    stream = io.StringIO()
    print_report(console_for(stream), report)
    assert "Other processes slow this run: fix what is found below, then record again." in stream.getvalue()


def test_rules_that_lack_the_same_share_a_row() -> None:
    report = assemble(Synth().kernel(0, 40).kernel(60, 100).run())
    rows = [row for row in report.checks().rows if row[2]]
    assert len({row[2:] for row in rows}) == len(rows)
    named = [rule for row in rows for rule in str(row[0]).split(", ")]
    assert sorted(named) == sorted(one.rule for one in report.unchecked)


def test_an_empty_step_is_no_part_of_means() -> None:
    """A profiler that stops marks one more step, in which nothing runs."""
    synth = Synth()
    for step in range(5):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + (100 if step < 4 else 1))
        if step < 4:
            synth.host("aten::mm", "operator", start, start + 80)
            synth.host("autograd::engine::evaluate_function: X", "operator", start + 80, start + 100)
    run = synth.run()
    (lines,) = [block for block in SECTIONS.get("step-times").build(run) if isinstance(block, Lines)]
    assert {len(line.points) for line in lines.lines} == {4}
    _, text = SECTIONS.get("step-breakdown").build(run)
    assert isinstance(text, Text)
    assert text.values[0].value == 4


def test_without_steps_the_longest_gaps_are_told_with_the_verdict() -> None:
    synth = Synth().kernel(0, 1).host("cudaFree", "runtime", 2, 97)
    synth.host("cudaLaunchKernel", "runtime", 98, 98.5, correlation=7).kernel(99, 100, correlation=7)
    verdict = diagnose(synth.run()).verdict
    assert verdict.bound == "host"
    assert "in cudaFree" in sentence(verdict)


def test_a_title_names_one_collective_only_where_it_has_all_of_the_time() -> None:
    synth = Synth()
    for start in marked_steps(synth):
        synth.kernel(start, start + 40)
        synth.kernel(start + 40, start + 80, ALL_REDUCE, stream="9")
        synth.kernel(start + 80, start + 95, "ncclDevKernel_AllGather_RING_LL", stream="9")
    (finding,) = [block.finding for block in diagnose(synth.run()).findings if block.rule == "exposed-communication"]
    assert title_text(finding.title) == "Communication, mostly all_reduce, is exposed 55 ms per step (55 %)"


@pytest.mark.parametrize(("name", "told"), [(None, [None, True]), ("NVIDIA H100", [False, True])])
def test_whether_a_device_without_a_name_has_tensor_cores_is_not_known(
    name: str | None, told: list[bool | None]
) -> None:
    synth = Synth().kernel(0, 40, "elementwise_kernel").kernel(40, 60, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn")
    synth.add("devices", device=0, name=name)
    (table,) = [block for block in SECTIONS.get("kernels").build(synth.run()) if isinstance(block, Table)]
    assert [row[-1] for row in table.rows] == told


def test_a_kernel_that_waits_long_for_its_launch_is_no_case_for_fewer_launches() -> None:
    synth = Synth()
    for start in marked_steps(synth):
        synth.kernel(start, start + 20)
        synth.kernel(start + 80, start + 100)
    (finding,) = [block.finding for block in diagnose(synth.run()).findings if block.rule == "host-bound"]
    assert title_text(finding.title) == "Host code leaves the GPU idle 60 ms per step (60 %)"
    assert [advice.code for advice in finding.advice] == ["stepscope show idle_gaps RUN", ""]


def test_a_cut_trace_without_a_whole_step_is_not_called_inference(tmp_path: Path) -> None:
    whole = json.dumps({"traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 900, "pid": 1, "tid": 1},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 10, "dur": 20, "pid": 1, "tid": 1},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 40, "dur": 20, "pid": 1, "tid": 1},
    ]})  # fmt: skip
    path = tmp_path / "cut.json"
    path.write_text(whole[:-40])
    stream = io.StringIO()
    print_card(console_for(stream), assemble(open_run([path])))
    assert "cut off" in stream.getvalue() and "Inference" not in stream.getvalue()
