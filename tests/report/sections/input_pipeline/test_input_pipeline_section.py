"""What a report says of the input pipeline, and which call of a worker the rule points at."""

import io
import json
from importlib.resources import files

import jsonschema
import pytest

from stepscope.analyses.input_pipeline.lib.worker_calls import slowest_calls
from stepscope.core.errors import MissingData
from stepscope.core.finding import Finding, Place
from stepscope.core.report import Lanes, Table, Text
from stepscope.core.synth import MS, Synth
from stepscope.render.charts import lanes_table
from stepscope.render.format import text
from stepscope.render.json import dumps, report_document
from stepscope.render.markdown import report_markdown
from stepscope.render.svg import svg
from stepscope.render.terminal import console_for
from stepscope.render.terminal_card import print_report
from stepscope.report.assemble import assemble
from stepscope.report.sections.input_pipeline.clocks import SECTION as CLOCKS
from stepscope.report.sections.input_pipeline.input_pipeline import SECTION
from stepscope.rules.input_pipeline.input_bound import RULE

STEP = 40  # ms


def span(
    synth: Synth, stage: str, start: float, end: float, worker: int | None, batch: int | None = None, **columns: object
) -> None:
    known = {"loader": 0, "iterator": 1, "epoch": 0, "weight": 1, "failed": False, "rank": 0}
    synth.add(
        "loader_spans", pid="1" if worker is None else str(100 + worker), worker=worker, stage=stage, batch=batch,
        start=round(start * MS), end=round(end * MS), **{**known, **columns},
    )  # fmt: skip


def two_workers_in_step(steps: int = 12, *, traced: bool = True) -> Synth:
    """Every other step waits 36 ms for two batches that were begun together."""
    synth = Synth().add("loaders", loader=0, train=True, dataset="__main__.Rows", num_workers=2, batch_size=4)
    for step in range(steps):
        start, wait = STEP * step, 36 if step % 2 == 0 else 0
        synth.step(step, start, start + STEP, data_wait=wait, forward=1, backward=1, optimizer=1, samples=4)
        if not traced:
            continue
        ready = STEP * (step - step % 2) + 36
        span(synth, "fetch", ready - 70, ready - 2, step % 2, step, cpu=MS)
        span(synth, "sample", ready - 70, ready - 10, step % 2, step, name="__main__.Rows", file="/d/a.py", line=4)
        library = "/x/site-packages/torch/c.py"
        span(synth, "collate", ready - 10, ready - 2, step % 2, step, name="torch.c", file=library, line=9)
        span(synth, "send", ready - 2, ready, step % 2, step)
        span(synth, "wait", start, start + wait, None, step)
    return synth


def told(synth: Synth) -> tuple[list[str], list[str]]:
    """Titles of tables and sentences of the section."""
    blocks = SECTION.build(synth.run())
    tables = [block.title for block in blocks if isinstance(block, Table)]
    return tables, [block.text.format(*(f"{value.value:g}" for value in block.values)) for block in blocks
                    if isinstance(block, Text)]  # fmt: skip


def test_workers_and_training_stand_beneath_each_other() -> None:
    (block,) = [block for block in SECTION.build(two_workers_in_step().run()) if isinstance(block, Lanes)]
    assert [lane.label for lane in block.lanes] == ["worker 0", "worker 1", "training"]
    assert block.kinds == ("data wait", "training", "fetching", "serializing and sending")
    assert block.lanes[2].spans[:2] == ((0, 36 * MS, "data wait"), (36 * MS, 80 * MS, "training"))
    table = lanes_table(block)
    assert [column for column, _ in table.columns] == ["who", *block.kinds]
    assert table.rows[2][1] == 6 * 36 * MS
    assert "worker 1" in svg(block)


def test_tables_and_sentences() -> None:
    tables, sentences = told(two_workers_in_step())
    assert tables == ["Stages of loading", "Calls in data loading", "DataLoader workers"]
    assert sentences == [
        "These lanes show 4.4e+08 of the run.",
        "Gaps in a worker's lane were not recorded: quick batches are sampled.",
        "6 of 12 fully recorded batches came late, by 3.6e+07 on average.",
        "Training stalls 3.6e+07 every 2 batches, once per round of workers: the workers run in lockstep.",
    ]


def test_without_spans_the_section_says_how_to_record_them_or_nothing() -> None:
    with pytest.raises(MissingData, match="input pipeline"):
        SECTION.build(two_workers_in_step(traced=False).run())
    assert SECTION.build(Synth().step(0, 0, 10, data_wait=0).run()) == []


def finding(synth: Synth) -> Finding:
    (found,) = RULE.check(synth.run())
    return found


def test_the_rule_points_at_the_slowest_call_in_the_workers() -> None:
    found = finding(two_workers_in_step())
    assert found.where == (Place(file="/d/a.py", line=4, symbol="__main__.Rows"),)
    values = {row.label: row.value for row in found.evidence}
    assert values["Rows time per call"] == 60 * MS
    assert values["Rows share of loading"] == pytest.approx(60 / 68)


def test_only_the_training_loader_counts_and_no_library() -> None:
    synth = two_workers_in_step()
    span(synth, "sample", 0, 900, 0, 0, loader=1, name="__main__.Validation", file="/d/a.py", line=40)
    assert [call.place.symbol for call in slowest_calls(synth.run(), 0)] == ["__main__.Rows"]
    assert slowest_calls(synth.run(), 1) == ()
    assert slowest_calls(two_workers_in_step(traced=False).run(), 0) == ()


def test_a_transform_that_takes_the_time_comes_before_the_data_set_around_it() -> None:
    synth = two_workers_in_step()
    for step in range(12):
        ready = STEP * (step - step % 2) + 36
        span(synth, "transform", ready - 60, ready - 15, step % 2, step, name="__main__.Mask", file="/d/a.py", line=20)
    calls = slowest_calls(synth.run(), 0)
    assert [(call.place.line, call.stage, call.mean) for call in calls] == [
        (20, "transform", 45 * MS), (4, "sample", 15 * MS),
    ]  # fmt: skip


def test_times_that_fit_are_said_to_with_what_was_measured() -> None:
    synth = Synth()
    span(synth, "send index", 0, 1, None, 0)
    span(synth, "index wait", 0, 2, 0, 0)
    for time in (0, 90):
        synth.add("clock_readings", source="window 0", time=time * MS, offset=0, error=20)
    span(synth, "wait", 11, 17, None, 0)
    synth.host("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "annotation", 10, 20)
    texts = {text(block) for block in CLOCKS.build(synth.run()) if isinstance(block, Text)}
    assert "All 2 checked data-loading times are consistent." in texts
    assert "Data-loading times and trace differ by at most 3 ms." in texts


def test_times_that_do_not_fit_are_said_not_to() -> None:
    synth = Synth()
    span(synth, "send index", 5, 6, None, 0)
    span(synth, "index wait", 0, 2, 0, 0)
    found = CLOCKS.build(synth.run())
    assert any(
        isinstance(block, Text) and text(block).startswith("Data-loading times that contradict each other: 1 of 1;")
        for block in found
    )
    (table,) = (block for block in found if isinstance(block, Table))
    headings = [heading for heading, _ in table.columns]
    assert dict(zip(headings, table.rows[0], strict=True))["clock"] == "worker 0"


def sampled(synth: Synth, times: int, line: int, *, loader: int = 0, file: str = "/d/a.py") -> None:
    for time in range(times):
        synth.add(
            "worker_stacks", pid="100", worker=0, loader=loader, time=time * MS, weight=50 * MS, file=file, line=line,
            function="__getitem__", text=f"line {line}", call=f"numpy/{time % 2}.py:1 f",
        )  # fmt: skip


def test_a_line_that_was_sampled_in_the_workers_comes_before_the_calls_around_it() -> None:
    synth = two_workers_in_step()
    sampled(synth, 12, 30)
    sampled(synth, 20, 31)
    sampled(synth, 4, 32)
    sampled(synth, 40, 8, file="torch/utils/data/_utils/collate.py")
    sampled(synth, 90, 50, loader=1)
    found = finding(synth)
    assert [(place.line, place.text) for place in found.where] == [(31, "line 31"), (30, "line 30")]
    assert any(advice.text.startswith("Make this line cheaper") for advice in found.advice)
    tables, _ = told(synth)
    assert tables[2] == "Lines of the workers"


def test_workers_that_wait_for_cores_and_starts_that_are_waited_for_are_said() -> None:
    assert not any("core" in sentence or "started" in sentence for sentence in told(two_workers_in_step())[1])
    synth = Synth()
    for epoch, begin in enumerate((0, 1000)):
        at = {"iterator": epoch + 1, "batch": 0}
        span(synth, "start workers", begin, begin + 20, None, **at)
        span(synth, "fetch", begin + 30, begin + 70, 0, **at, cpu=30 * MS, core_wait=8 * MS)
        span(synth, "wait", begin + 20, begin + 75, None, **at)
        span(synth, "stop workers", begin + 80, begin + 90, None, **at)
    assert told(synth)[1][:2] == [
        "Workers waited for a CPU core for 0.2 of their loading time. Wall times include that wait: compare CPU times. "
        "The table core_waits shows who used the cores.",
        "Workers of loader 0 started 2 times. Each start and end cost training 4e+07.",
    ]


def test_every_renderer_draws_the_workers() -> None:
    report = assemble(two_workers_in_step().run())
    schema = json.loads(files("stepscope.render").joinpath("report.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(json.loads(dumps(report_document(report))))
    stream = io.StringIO()
    print_report(console_for(stream), report)
    for drawn in (stream.getvalue(), report_markdown(report)):
        assert "Workers and training, batch by batch" in drawn
        assert "216 ms" in drawn  # training waited for six of twelve batches
