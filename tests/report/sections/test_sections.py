"""The contract of all sections: built from any run, printed in every format, and valid JSON."""

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files

import jsonschema
import polars as pl
import pytest

from stepscope.core.errors import DEVICE_WORK, MissingData
from stepscope.core.report import Bars, Table, Text, Verdict
from stepscope.core.run import Run
from stepscope.core.schema import TABLES
from stepscope.core.synth import MS, Synth
from stepscope.render.document import Report
from stepscope.render.format import text
from stepscope.render.html import report_html
from stepscope.render.json import dumps, report_document
from stepscope.render.markdown import report_markdown
from stepscope.render.terminal import console_for
from stepscope.render.terminal_card import print_card, print_report
from stepscope.report.assemble import SECTIONS, assemble

SCHEMA = json.loads(files("stepscope.render").joinpath("report.schema.json").read_text(encoding="utf-8"))
HOSTILE = "\x1b[2J\x1b]0;owned\x07|\n# <script>alert(1)</script> `{}` {0} \u202e" + "x" * 200_000
STEP = 100  # ms
TRACED = range(30, 33)


def steps_of(synth: Synth, rank: int, *, count: int = 40, wait: float = 60) -> None:
    for number in range(count):
        start = number * STEP
        tags = ("traced",) if number in TRACED else ()
        synth.step(
            number, start, start + STEP, data_wait=wait, forward=15, backward=15, optimizer=5, samples=32,
            tags=tags, rank=rank,
        )  # fmt: skip


def trace_of(synth: Synth, *, device: bool) -> None:
    for number in TRACED:
        start = number * STEP
        end = start + STEP
        synth.host(f"ProfilerStep#{number}", "annotation", start, end)
        synth.host("enumerate(DataLoader)#_Iter.__next__", "annotation", start, start + 60)
        synth.host("nn.Module: Net_0", "python", start + 59, start + 76, module_id=0)
        synth.host(
            "aten::addmm", "operator", start + 60, start + 75, input_dims="[[8],[4,2],[2,8],[],[]]",
            input_types='["float","float","float","Scalar","Scalar"]',
        )  # fmt: skip
        synth.host(
            "autograd::engine::evaluate_function: AddmmBackward0", "operator", start + 76, start + 90, thread="2"
        )
        synth.host("Optimizer.step#SGD.step", "annotation", start + 91, start + 95)
        if device:
            synth.host("cudaLaunchKernel", "runtime", start + 61, start + 62, correlation=number)
            synth.kernel(start + 62, start + 75, "volta_sgemm_64x64_nt", correlation=number, occupancy=0.4)
            synth.kernel(start + 60, start + 61, "Memcpy HtoD (Pageable -> Device)", kind="memcpy", bytes=2**20)


def facts_of(synth: Synth) -> None:
    synth.add(
        "processes", framework="torch 2.13.0", host="node", world_size=1, rank_source="RANK", threads=2, probe_cost=3000
    )
    synth.add(
        "loaders", loader=0, train=True, dataset="pkg.Images", dataset_file="data.py", dataset_line=7, batch_size=32,
        num_workers=0, pin_memory=False,
    )  # fmt: skip
    synth.add("optimizers", name="Adam", module="torch.optim.adam", groups=1, parameters=12, elements=1_234_567)
    for second in range(4):
        synth.add("system", time=second * 1000 * MS, what="system CPU", value=0.5, unit="ratio")
        synth.add("system", time=second * 1000 * MS, what="job memory", value=2.0**30, unit="bytes")
    synth.add("windows", window=0, status="recorded", first_step=30, last_step=32, trace="t.json", cost=5 * MS)
    synth.add("meta", source="run", key="command", value='["python", "train.py"]')
    synth.add("skipped", source="t.json", reason="events without a name", count=3)
    synth.add("memory", thread="1", time=3061 * MS, device_type=1, device=0, bytes=64, address=1, total_allocated=99)
    for step, stage in enumerate(("fetch", "sample", "send", "wait")):
        synth.add(
            "loader_spans", worker=None if stage == "wait" else 0, loader=0, iterator=1, epoch=0, batch=0, stage=stage,
            name="pkg.Images", file="data.py", line=7, start=step * MS, end=(step + 1) * MS, weight=1, failed=False,
        )  # fmt: skip
    for step in range(4, 30):
        for part in range(3):
            time = step * STEP + 10 + 20 * part
            synth.sample(step, time, 20, "data_wait", "data.py", 41, function="__getitem__", text="x = resize(x)")


def full() -> Run:
    synth = Synth()
    steps_of(synth, 0)
    trace_of(synth, device=True)
    facts_of(synth)
    synth.add("devices", device=0, name="NVIDIA H200", memory=2**37, sms=132, max_threads_per_sm=2048, warp_size=32)
    synth.add("trials", setting="num_workers=4", step=9e6, low=8e6, high=10e6, data_wait=0.1, trials=2, steps=40)
    return synth.run()


def on_the_cpu() -> Run:
    synth = Synth()
    steps_of(synth, 0)
    trace_of(synth, device=False)
    facts_of(synth)
    return synth.run()


def empty() -> Run:
    return Synth().run()


def hostile() -> Run:
    """The full run with every name replaced that an analysis does not have to recognize."""
    run = full()
    kept = {"kind", "clock", "phase", "unit", "status", "what", "pid", "thread", "capability", "rank_source", "key"}
    tables = {}
    for name, table in run.tables.items():
        texts = [column.name for column in TABLES[name] if column.type == pl.String and column.name not in kept]
        markers = (
            pl.col("name").str.contains("ProfilerStep|DataLoader|evaluate_function")
            if "name" in texts
            else pl.lit(False)
        )
        tables[name] = table.with_columns(
            pl.when(pl.col(text).is_null() | markers).then(pl.col(text)).otherwise(pl.lit(HOSTILE)).alias(text)
            for text in texts
        )
    return Run(tables, HOSTILE)


def several_ranks() -> Run:
    synth = Synth()
    for rank in range(12):
        steps_of(synth, rank, wait=40 + rank)
        synth.add("processes", rank=rank, pid=str(rank), framework="torch 2.13.0", host="node", world_size=12)
    return synth.run()


RUNS: dict[str, Callable[[], Run]] = {
    "full": full, "cpu": on_the_cpu, "empty": empty, "hostile": hostile, "ranks": several_ranks,
}  # fmt: skip


@pytest.fixture(params=list(RUNS))
def report(request: pytest.FixtureRequest) -> Report:
    return assemble(RUNS[request.param]())


def printed(report: Report) -> str:
    stream = io.StringIO()
    print_report(console_for(stream), report)
    return stream.getvalue()


@pytest.mark.parametrize("name", SECTIONS.names())
@pytest.mark.parametrize("make", RUNS.values(), ids=RUNS)
def test_a_section_gives_blocks_or_says_what_is_missing(name: str, make: Callable[[], Run]) -> None:
    run = make()
    try:
        blocks = SECTIONS.get(name).build(run)
    except MissingData as missing:
        blocks, lack = [], missing
        told = bool(lack.what) and ("stepscope" in lack.how or "train for" in lack.how)
    else:
        told = True
    assert told
    for block in blocks:
        if isinstance(block, Table):
            assert all(len(row) == len(block.columns) for row in block.rows)


@pytest.mark.parametrize("name", SECTIONS.names())
def test_a_section_shows_a_run_that_has_everything(name: str) -> None:
    assert SECTIONS.get(name).build(full()) or name in (
        "unchecked",
        "distributed",
        "rank-clocks",
        "rank-steps",
    )  # of one rank


def test_every_renderer_draws_every_run(report: Report) -> None:
    text = printed(report)
    assert max(map(len, text.splitlines())) <= 100
    document = json.loads(dumps(report_document(report)))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    page, markdown = report_html(report), report_markdown(report)
    for drawn in (text, page, markdown):
        assert "\x1b" not in drawn
        assert "\u202e" not in drawn
    for drawn in (text, markdown):
        assert "None" not in drawn
        assert "nan" not in drawn.split()
    for drawn in (text, markdown):
        assert len(drawn) < 400_000
    titles = [part.title for part in report.parts[1:] if part.blocks]
    assert all(f"\n{title} ─" in text and json.dumps(title) in page for title in titles)
    assert all(f"<summary>{title}</summary>" in markdown for title in titles)


def test_the_summary_of_a_known_run() -> None:
    verdict, bar = SECTIONS.get("summary").build(full())
    assert isinstance(verdict, Verdict)
    assert verdict.bound == "input"
    assert isinstance(bar, Bars)
    assert sum(part.value for part in bar.parts) == pytest.approx(verdict.step_ns)
    assert [part.label for part in bar.parts] == ["data wait", "kernels", "copies", "device idle"]
    assert bar.parts[0].value == pytest.approx((verdict.share or 0) * (verdict.step_ns or 0))


def test_the_bar_of_a_job_on_the_cpu_has_its_phases() -> None:
    _, bar = SECTIONS.get("summary").build(on_the_cpu())[:2]
    assert isinstance(bar, Bars)
    assert [(part.label, part.value) for part in bar.parts] == [
        ("data wait", 60 * MS), ("forward", 15 * MS), ("backward", 15 * MS), ("optimizer", 5 * MS), ("other", 5 * MS),
    ]  # fmt: skip


def test_which_steps_the_means_are_over_stands_beside_their_chart() -> None:
    *_, words = SECTIONS.get("step-times").build(full())
    assert isinstance(words, Text)
    assert (
        words.text == "Averages outside this chart use {} of {} steps. Their median is {}. "
        "Left out: {} traced or next to tracing, {} warm-up."
    )
    assert [value.value for value in words.values] == [34, 40, 100 * MS, 3, 3]


def test_time_of_steps_around_the_device_work_is_told_beside_the_gaps() -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100).host("aten::mm", "operator", 60, 90)
    synth.kernel(70, 90, "sgemm")
    (text,) = SECTIONS.get("idle").build(synth.run())
    assert isinstance(text, Text) and "before the first and after the last device work" in text.text
    assert [value.value for value in text.values] == [80 * MS, 100 * MS]


def test_one_step_is_not_called_several() -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100).host("aten::mm", "operator", 10, 90)
    verdict, *rest = SECTIONS.get("summary").build(synth.run())
    assert isinstance(verdict, Verdict)
    assert verdict.steps == 1
    assert not any(isinstance(block, Bars) for block in rest)  # nothing tells where forward ends
    assert not [block for block in rest if isinstance(block, Text) and re.search(r"\bsteps?\b", block.text)]


def test_a_run_says_on_its_first_screen_that_nothing_was_found_and_what_was_checked() -> None:
    synth = Synth()
    steps_of(synth, 0, wait=0)
    report = assemble(synth.run())
    stream = io.StringIO()
    print_card(console_for(stream), report)
    screen = " ".join(stream.getvalue().split())
    looked, blind = report.checked, [row.rule for row in report.unchecked if row.missing != DEVICE_WORK]
    assert {"input-bound", "periodic-stall"} <= set(looked)
    assert blind
    assert f"No cause found ({len(looked)} checks). {len(blind)} need more data: `stepscope report " in screen
    assert "--checks`." in screen
    assert f"{len(report.unchecked) - len(blind)} checks are for accelerators." in screen
    assert "`stepscope report 'a run' --checks`" in printed(assemble(replace(synth.run(), path="a run")))
    for drawn in (report_markdown(report), printed(report)):
        assert drawn.count("No cause found") == 1


def test_damage_is_told_on_the_first_screen_with_what_could_still_be_read() -> None:
    synth = Synth()
    trace_of(synth, device=False)
    synth.sample(30, 0, 10, "forward", "train.py", 3)
    for number in range(3):
        synth.add("meta", source="r", key="damaged", value=f"r/rank-{number}/steps.bin is empty: not read")
    screen = " ".join(printed(assemble(synth.run())).split())
    assert "Damaged: r/rank-0/steps.bin is empty: not read. 2 more files are damaged" in screen
    assert "Still read: 0 timed steps, 1 sample of lines, 18 events of traced windows." in screen
    assert "record it again: `stepscope run -- COMMAND`" in screen


def test_a_run_without_steps_is_not_called_healthy() -> None:
    assert "No problem found" not in printed(assemble(empty()))


@pytest.mark.parametrize("make", RUNS.values(), ids=RUNS)
def test_every_average_says_which_one_it_is(make: Callable[[], Run]) -> None:
    blocks = [block for part in assemble(make()).parts for block in part.blocks]
    titles = [block.title for block in blocks if isinstance(block, Bars | Table)]
    headings = [heading for block in blocks if isinstance(block, Table) for heading, _ in block.columns]
    sentences = [block.text for block in blocks if isinstance(block, Text)]
    for words in (*titles, *headings, *sentences):
        averaged = re.search(r"\b(average|averaged|avg|per step|one step)\b", words, re.IGNORECASE)
        assert not averaged or re.search(r"\b(mean|median)\b", words, re.IGNORECASE), words


def test_a_part_that_was_not_observed_is_not_drawn_as_zero() -> None:
    synth = Synth()
    for number in range(10):
        synth.step(number, number * STEP, (number + 1) * STEP, data_wait=None, forward=50, backward=40)
    (bar,) = [block for block in SECTIONS.get("summary").build(synth.run()) if isinstance(block, Bars)]
    assert "data wait" not in [part.label for part in bar.parts]


def test_a_job_on_the_cpu_gets_no_pages_about_devices() -> None:
    report = assemble(on_the_cpu())
    names = {part.name for part in report.parts if part.blocks}
    assert "kernels" not in names
    text = printed(report)
    for word in ("Kernels", "SM efficiency", "exposed", "On the GPU"):
        assert word not in text


def test_a_step_without_phases_gets_no_table_of_them() -> None:
    synth = Synth().host("ProfilerStep#1", "annotation", 0, 3).host("aten::mm", "operator", 0, 2).kernel(1, 3)
    assert SECTIONS.get("phases").build(synth.run()) == []
    synth.host("Optimizer.step#Adam.step", "annotation", 2, 3)
    assert SECTIONS.get("phases").build(synth.run())


def test_a_breakdown_without_marked_steps_is_of_all_that_was_recorded() -> None:
    synth = Synth().host("aten::mm", "operator", 0, 2).kernel(1, 3)
    bars, told, *_ = SECTIONS.get("step-breakdown").build(synth.run())
    assert isinstance(bars, Bars) and isinstance(told, Text)
    assert (bars.title, "no steps are marked" in told.text) == ("Whole recording", True)
    synth.host("ProfilerStep#1", "annotation", 0, 3)
    assert SECTIONS.get("step-breakdown").build(synth.run())[1] == Text("One traced step.")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("A100", "The host has 8 × A100; this run uses 1."),
        (None, "The host has 8 devices whose name was not recorded; this run uses 1."),
    ],
)
def test_the_devices_of_the_host_and_those_that_work(name: str | None, sentence: str) -> None:
    synth = Synth().kernel(0, 1, device=3).add("processes", rank=0)
    for device in range(8):
        synth.add("devices", device=device, name=name, memory=2**36)
    blocks = SECTIONS.get("workload").build(synth.run())
    assert sentence in " ".join(text(block) for block in blocks if isinstance(block, Text))


def test_the_workload_answers_three_questions() -> None:
    does, executes, lives = SECTIONS.get("workload").build(full())
    assert isinstance(does, Text)
    assert does.text.startswith("Workload: Adam trains {} parameters in {} tensors. The mean step has {} samples.")
    assert isinstance(executes, Text)
    assert executes.text.startswith("Execution: One process on node.")
    assert "num_workers=0" in executes.text
    assert "{} × NVIDIA H200." in executes.text
    assert isinstance(lives, Text)
    assert lives.text.startswith("Data: Samples come from pkg.Images (data.py:7); batches wait in pageable")
    assert "Job memory reached {}." in lives.text


def test_one_of_a_thing_is_not_several() -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100).sample(0, 0, 10, "forward", "train.py", 3)
    synth.add("optimizers", name="SGD", parameters=1, elements=1)
    for number in range(21):
        synth.add("skipped", source=str(number), reason="x", count=1 if number else 9)
    text = " ".join(printed(assemble(synth.run())).split())
    for words in ("SGD trains 1 parameter in 1 tensor.", "1 step is timed on", "from 1 sample."):
        assert words in text
    assert "And 1 more, in 1 row." in text
    assert not re.search(r"\b1 (steps|samples|tensors|parameters|rows)\b", text)


def test_rules_that_lack_the_same_thing_share_a_row() -> None:
    (table,) = SECTIONS.get("unchecked").build(empty())
    assert isinstance(table, Table)
    needs = [row[1:] for row in table.rows]
    assert len(needs) == len(set(needs))


def test_the_first_screen_of_a_real_report_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    console = console_for(stream)
    console.width = 80
    print_card(console, assemble(full()))
    lines = stream.getvalue().splitlines()
    assert len(lines) <= 30, "40 for three findings"
    assert any("train" in line or "data.py:41" in line for line in lines)


def test_why_no_step_was_seen_is_told() -> None:
    synth = Synth()
    synth.add("meta", source="run", key="no_steps", value="No step was recorded: {reason}.")
    text = printed(assemble(synth.run()))
    assert "No step was recorded: {reason}." in text
