"""What is read of a run before anything is predicted."""

import numpy as np
import polars as pl
import pytest

from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.pipeline import pipeline

from .recorded_loading import MS, recorded


def without(run: Run, *tables: str) -> Run:
    return Run({name: table for name, table in run.tables.items() if name not in tables}, run.path)


def test_times_of_a_batch() -> None:
    found = pipeline(recorded(others=0.5), 0)
    assert (found.workers, found.prefetch, found.batches, found.cores) == (2, 2, 1.0, 16.0)
    assert (found.step, found.own, found.transfer_cost) == (20 * MS, 10 * MS, 0)
    assert np.array_equal(np.unique(found.fetch, axis=0), [[40 * MS, 40 * MS]])
    assert (found.feed, found.collate, found.foreign) == (MS, 4 * MS, 0.5)
    assert found.own_cpu == pytest.approx(2.5 * 20 * MS - 41 * MS)  # 50 ms of cores in 20 ms, 41 of them the workers'
    assert not found.unseen


def test_waits_of_the_training_process_for_a_core_are_its_own() -> None:
    """A quarter of the time, of steps of 20 ms; the other rank's is another."""
    run, synth = recorded(), Synth()
    for rank, part in ((0, 0.25), (1, 0.75)):
        synth.add("system", time=400 * MS, rank=rank, what="core wait", value=part, unit=None)
    more = pl.concat([run.table("system", how=""), synth.run().table("system", how="")])
    assert pipeline(Run({**run.tables, "system": more}, run.path), 0).stood == 5 * MS
    assert pipeline(run, 0).stood is None


def received(*times: tuple[float, float]) -> Run:
    """With these wall and CPU times, ms, of taking a batch."""
    run, synth = recorded(), Synth()
    for batch, (wall, cpu) in enumerate(times, 8):
        synth.add(
            "loader_spans", pid="1", loader=0, iterator=1, epoch=0, batch=batch, stage="receive", weight=1,
            start=batch * 20 * MS, end=int((batch * 20 + wall) * MS), cpu=int(cpu * MS), failed=False,
        )  # fmt: skip
    return with_spans(run, pl.concat([run.table("loader_spans", how=""), synth.run().table("loader_spans", how="")]))


def test_a_batch_that_is_ready_takes_as_long_as_the_quick_ones() -> None:
    found = pipeline(received((9, 1), (1.5, 1), (1.5, 1), (30, 1), (30, 1)), 0)
    assert (found.transfer_cost, found.held) == (1.5 * MS, 14.25 * MS), "beside the first, which is no measure"
    found = pipeline(received((30, 1), (30, 1), (30, 1)), 0)
    assert (found.transfer_cost, found.held) == (1.6 * MS, 28.4 * MS), "each waited for a busy worker"


def test_the_size_of_a_batch_is_that_of_its_tensors() -> None:
    run, synth = recorded(), Synth()
    for worker in range(2):
        for size in (1000, 24):
            synth.add("batch_tensors", loader=0, pid=str(100 + worker), worker=worker, type="torch.uint8", bytes=size)
    tensors = synth.run().table("batch_tensors", how="")
    assert pipeline(Run({**run.tables, "batch_tensors": tensors}, run.path), 0).size == 1024
    assert pipeline(run, 0).size == 0


def test_the_start_of_an_epoch_is_apart() -> None:
    found = pipeline(recorded(epoch=10, start=100), 0)
    assert found.step == pytest.approx(20 * MS)
    assert found.starts == 3 / 37
    assert found.restart == pytest.approx(100 * MS * 3 / 37)


def test_calls_have_their_own_part_of_a_fetch() -> None:
    parts = {call.name: call.cpu for call in pipeline(recorded(), 0).calls}
    assert parts == pytest.approx({"data.Blur": 0.5, "data.Pictures": 0.4, "data.collate": 0.1})


def with_spans(run: Run, spans: pl.DataFrame) -> Run:
    return Run({**run.tables, "loader_spans": spans}, run.path)


def test_samples_may_be_recorded_more_rarely_than_fetches() -> None:
    run = recorded()
    spans = run.table("loader_spans", how="")
    rare = spans.filter(~pl.col("stage").is_in(["sample", "transform"]) | (pl.col("batch") % 2 == 0))
    parts = {call.name: call.cpu for call in pipeline(with_spans(run, rare), 0).calls}
    assert parts == pytest.approx({"data.Blur": 0.5, "data.Pictures": 0.4, "data.collate": 0.1}, rel=0.05)


def test_calls_are_parts_of_the_samples_that_were_recorded_however_long_other_batches_take() -> None:
    """Samples are recorded of two batches, which take half as long as others: calls are no smaller part of a fetch."""
    run = recorded()
    spans = run.table("loader_spans", how="")
    inside, few = pl.col("stage").is_in(["sample", "transform"]), pl.col("batch").is_in([8, 9])
    shorter = pl.when(inside).then(2).otherwise(1)
    found = spans.filter(~inside | few).with_columns(
        end=pl.col("start") + (pl.col("end") - pl.col("start")) // shorter, cpu=pl.col("cpu") // shorter,
        weight=pl.when(inside).then(20).otherwise(1),
    )  # fmt: skip
    parts = {call.name: call.cpu for call in pipeline(with_spans(run, found), 0).calls}
    assert parts == pytest.approx({"data.Blur": 0.5, "data.Pictures": 0.4, "data.collate": 0.1})


def test_parts_of_cpu_time_and_of_waiting_each_add_up() -> None:
    run = recorded(cpu=20)
    calls = pipeline(run, 0).calls
    assert sum(call.cpu for call in calls) == pytest.approx(1)
    assert sum(call.other for call in calls) == pytest.approx(1)


@pytest.mark.parametrize(("process", "further"), [(None, 0), (45, 0), (71, 30), (131, 90)])
def test_cpu_time_of_further_threads_of_workers_takes_cores(process: int | None, further: int) -> None:
    """40 ms of 60 are the thread's that makes a batch, 1 is the feeder's; the model has one thread for a batch."""
    run = recorded(fetch=60, cpu=40, job=4.0)
    collates = pl.col("stage") == "collate"
    told = pl.when(collates).then(None if process is None else process * MS).otherwise("process_cpu")
    found = pipeline(with_spans(run, run.table("loader_spans", how="").with_columns(process_cpu=told)), 0)
    assert (found.alone, found.further) == (40 * MS, further * MS)
    assert found.fetch[:, 0].mean() == min(60, 40 + further) * MS
    assert found.own_cpu == pytest.approx(min(10, max(0, 80 - 41 - further)) * MS)


def test_what_workers_do_all_at_once_at_the_start_is_left_out() -> None:
    run = recorded()
    first = run.table("steps", how="")["start"][3]
    slower = pl.when((pl.col("stage") == "fetch") & (pl.col("start") < first)).then(3).otherwise(1)
    spans = run.table("loader_spans", how="").with_columns(
        end=pl.col("start") + slower * (pl.col("end") - pl.col("start"))
    )
    assert pipeline(with_spans(run, spans), 0).fetch[:, 1].mean() == 40 * MS


def test_without_workers_the_wait_is_the_fetch() -> None:
    found = pipeline(recorded(workers=0, step=55, own=10, job=1.0), 0)
    assert found.fetch[:, 1].mean() == pytest.approx(45 * MS)
    assert found.feed is None


def test_ranks_of_a_host_share_its_cores() -> None:
    run = recorded(cores=8, job=4.0)
    synth = Synth()
    for rank in (0, 1):
        synth.add("processes", rank=rank, pid=str(rank + 1), host="n0", threads=1)
    both = Run({**run.tables, "processes": synth.run().optional("processes")}, run.path)
    assert (pipeline(both, 0).cores, pipeline(both, 0).job) == (4.0, 2.0)


def test_a_device_without_a_trace_may_have_worked_meanwhile() -> None:
    run = recorded()
    steps = run.optional("steps").with_columns(device_duration=run.optional("steps")["end"] * 0 + MS)
    assert pipeline(Run({**run.tables, "steps": steps}, run.path), 0).unseen


@pytest.mark.parametrize(
    ("lacking", "message"),
    [
        ("loader_spans", "stepscope run -- COMMAND"),
        ("loaders", "training loader of rank 0"),
        ("steps", "training steps"),
        ("meta", "number of cores"),
    ],
)
def test_what_is_lacking_is_said(lacking: str, message: str) -> None:
    with pytest.raises(MissingData, match=message):
        pipeline(without(recorded(), lacking), 0)
