"""The analysis `run_time`: parts of the wall time of a whole run that add up, and what they cost."""

import pytest

from stepscope.analyses.bound.run_time import run_time
from stepscope.core.errors import MissingData
from stepscope.core.synth import MS, Synth
from stepscope.render.format import text
from stepscope.report.assemble import assemble
from stepscope.report.price import price_text, with_price
from stepscope.report.sections.steps.run_time import SECTION
from stepscope.report.whole_run import savings

START = 1_000_000  # ms after which the first step starts: no test knows the time of day


def job(*, launched: float | None = 3_000, ended: float | None = 500, wait: float = 40) -> Synth:
    """23 steps of 100 ms, 3 of warm-up, one of them traced and 50 ms longer; `launched` ms before, `ended` ms after."""
    synth, clock = _on_cpu(), float(START)
    synth.add(
        "loaders", loader=0, train=True, dataset="Pictures", num_workers=0, batch_size=32, pin_memory=False,
        persistent_workers=False,
    )  # fmt: skip
    for step in range(23):
        length = 150 if step == 10 else 100
        tags = ("traced", "tracing") if step == 10 else ()
        synth.step(step, clock, clock + length, data_wait=wait, forward=25, backward=30, optimizer=5, tags=tags)
        clock += length + (20 if step == 9 else 0)  # the profiler starts
    for key, at in (("started_epoch_ns", START - (launched or 0)), ("ended_epoch_ns", clock + (ended or 0))):
        if (launched if key.startswith("started") else ended) is not None:
            synth.add("meta", source="run.json", key=key, value=str(round(at * MS)))
    return synth


def _on_cpu() -> Synth:
    """A job whose lines were sampled: they tell that the CPU computes."""
    synth = Synth().add("processes", rank=0, host="n0", threads=1, probe="compiled")
    for step in range(3, 23):
        synth.sample(step, 0, 20, "backward", "/home/me/train.py", 40, call="torch/_tensor.py:600 backward")
    return synth


def test_the_parts_add_up_to_the_wall_time() -> None:
    rows = run_time(job().run()).select("part", "duration", "steps").rows()
    assert rows == [
        ("start", 3_000 * MS, None),
        ("warm-up", 300 * MS, 3),
        ("data wait", 800 * MS, 20),
        ("computing", 1_200 * MS, 20),
        ("recording", 70 * MS, None),
        ("end", 500 * MS, None),
    ]
    assert sum(time for _, time, _ in rows) == (3_000 + 2_370 + 500) * MS


def test_a_job_that_runs_has_no_end_and_one_without_launcher_no_start() -> None:
    parts = run_time(job(launched=None, ended=None).run())["part"].to_list()
    assert parts == ["warm-up", "data wait", "computing", "recording"]


def test_long_steps_are_told_apart() -> None:
    synth, clock = Synth(), 0.0
    for step in range(63):
        end = clock + (150 if step % 10 == 9 else 50)
        synth.step(
            step, clock, end, forward=20, backward=25, optimizer=5, tags=("evaluation",) if end > clock + 50 else ()
        )
        clock = end
    times = dict(run_time(synth.run()).select("part", "duration").iter_rows())
    assert times["long steps"] == pytest.approx(600 * MS, rel=0.01)
    assert sum(times.values()) == clock * MS


def test_time_between_steps_is_told_as_other() -> None:
    synth = _on_cpu()
    for step in range(13):
        start = 100.0 * step + (70 if step > 6 else 0)
        synth.step(step, start, start + 100, forward=50, backward=50)
    times = dict(run_time(synth.run()).select("part", "duration").iter_rows())
    assert times == {"warm-up": 300 * MS, "computing": 1_000 * MS, "other": 70 * MS}


def test_merged_steps_of_a_long_run_end_before_the_steps_that_they_stand_for() -> None:
    synth = _on_cpu()
    for step in range(3):
        synth.step(step, 100 * step, 100 * step + 100, forward=50, backward=50)
    for row in range(4):
        at = 300 + 1000 * row + 500  # the sixth of ten steps
        synth.add(
            "steps", step=3 + 10 * row, start=at * MS, end=(at + 100) * MS, clock="host", tags=[], weight=10,
            data_wait=0, forward=50 * MS, backward=50 * MS, optimizer=0, other=0, micro_batches=1,
        )  # fmt: skip
    synth.add("meta", source="run.json", key="ended_epoch_ns", value=str(4_450 * MS))
    times = dict(run_time(synth.run()).select("part", "duration").iter_rows())
    assert times["computing"] == 4_000 * MS
    assert sum(times.values()) == 4_450 * MS, "what the last row leaves of its steps is no end of the job"


def test_a_trace_tells_nothing_of_the_whole_run() -> None:
    synth = Synth()
    for step in range(5):
        synth.host(f"ProfilerStep#{step}", "annotation", 10 * step, 10 * step + 10)
        synth.host("aten::mm", "operator", 10 * step + 1, 10 * step + 9)
    with pytest.raises(MissingData, match="wall time of the whole run"):
        run_time(synth.run())


def test_the_section_says_what_a_finding_could_save() -> None:
    run = job().run()
    _, table, wall, told = SECTION.build(run)
    assert [(row[0], row[-1]) for row in table.rows if row[-1]] == [("data wait", 1)]  # type: ignore[union-attr,index]
    assert text(wall) == "Wall time from start to end: 5.87 s."  # type: ignore[arg-type]
    (saving,) = savings(run)
    assert (saving.low, saving.high) == (400 * MS, 800 * MS)
    assert text(told) == "Finding 1 could save 400 ms to 800 ms, at most 14 % of the run."  # type: ignore[arg-type]


def test_a_price_per_hour() -> None:
    run = job().run()
    told = "This run cost 0.00587 at 3.60 per hour. Finding 1 could save 0.72 to 1.44 per hour."
    assert text(price_text(run, 3.6)) == told
    assert with_price(assemble(run), run, 3.6).parts[0].blocks[-1] == price_text(run, 3.6)
    assert text(price_text(job(wait=0).run(), 3.6)) == "This run cost 0.00587 at 3.60 per hour."
    trace = Synth()
    for step in range(5):
        trace.host(f"ProfilerStep#{step}", "annotation", 10 * step, 10 * step + 10)
    assert text(price_text(trace.run(), 3.6)) == "The job costs 3.60 per hour."
