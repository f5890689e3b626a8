"""What workers and the training process did with their time."""

import polars as pl
import pytest

from stepscope.analyses.input_pipeline.loader_batches import loader_batches
from stepscope.analyses.input_pipeline.loader_stages import loader_stages
from stepscope.analyses.input_pipeline.loader_starts import loader_starts
from stepscope.analyses.input_pipeline.loader_transforms import loader_transforms
from stepscope.analyses.input_pipeline.loader_workers import loader_workers
from stepscope.analyses.input_pipeline.stall_pattern import stall_pattern
from stepscope.core.errors import MissingData
from stepscope.core.synth import Synth

MS = 1_000_000


def span(
    synth: Synth,
    stage: str,
    start: int,
    end: int,
    *,
    worker: int | None = None,
    cpu: int | None = None,
    weight: int = 1,
    **columns: object,
) -> None:
    """A span of loader 0, times in ms."""
    known = {"loader": 0, "iterator": 1, "epoch": 0, "batch": 0, "failed": False}
    synth.add(
        "loader_spans", pid="1" if worker is None else f"{100 + worker}", worker=worker, stage=stage, start=start * MS,
        end=end * MS, cpu=None if cpu is None else cpu * MS, weight=weight, **{**known, **columns},
    )  # fmt: skip


def two_workers() -> Synth:
    """Worker 0 works all the time; worker 1 waits 10 ms, the main process 4 of these."""
    synth = Synth()
    span(synth, "index wait", 0, 2, worker=0)
    span(synth, "fetch", 2, 90, worker=0, cpu=44)
    span(synth, "put", 90, 100, worker=0)
    span(synth, "serialize", 90, 96, worker=0, cpu=6)
    span(synth, "send", 96, 97, worker=0)
    span(synth, "fetch", 0, 30, worker=1, cpu=30)
    span(synth, "index wait", 30, 40, worker=1)
    span(synth, "fetch", 40, 50, worker=1, cpu=10, weight=2)
    span(synth, "wait", 36, 45)
    return synth


def test_stages_are_sums_with_weights() -> None:
    table = loader_stages(two_workers().run()).select("stage", "where", "count", "wall", "cpu", "waiting", "share")
    assert table.rows() == [
        ("fetch", "worker", 4, 138 * MS, 94 * MS, 44 * MS, 138 / 150),
        ("index wait", "worker", 2, 12 * MS, None, None, 12 / 150),
        ("put", "worker", 1, 10 * MS, None, None, 0.1),
        ("wait", "main process", 1, 9 * MS, None, None, 1.0),
        ("serialize", "feeder thread", 1, 6 * MS, 6 * MS, 0, 0.06),
        ("send", "feeder thread", 1, 1 * MS, None, None, 0.01),
    ]


def test_a_worker_without_work_is_starved_or_ahead() -> None:
    assert loader_workers(two_workers().run()).rows() == [
        (0, 0, 0, 1, 88 * MS, 10 * MS, 2 * MS, 0, 7 * MS, 0.5, None, None),
        (0, 0, 1, 3, 50 * MS, 0, 6 * MS, 4 * MS, 0, 1.0, None, None),
    ]


def test_a_worker_that_is_off_its_core_waits_for_one_or_for_something_else() -> None:
    synth = Synth()
    span(synth, "fetch", 0, 20, worker=0, cpu=8, core_wait=9 * MS)
    span(synth, "fetch", 20, 30, worker=0, cpu=6, core_wait=1 * MS, weight=2)
    span(synth, "fetch", 0, 10, worker=1, cpu=9, core_wait=3 * MS)  # clocks are read one after another
    rows = loader_workers(synth.run()).select("busy", "running", "core_wait", "blocked").rows()
    assert rows == [(40 * MS, 0.5, 11 * MS, 9 * MS), (10 * MS, 0.9, 1 * MS, 0)]


def test_loaders_are_apart_and_those_inside_a_worker_are_no_workers() -> None:
    synth = two_workers()
    span(synth, "fetch", 0, 7, worker=0, cpu=7, loader=1, iterator=2)
    span(synth, "fetch", 3, 9, worker=0, cpu=6, loader=None, iterator=None)
    run = synth.run()
    assert loader_workers(run).select("loader", "worker", "busy").rows()[-1] == (1, 0, 7 * MS)
    fetches = loader_stages(run).filter(stage="fetch").select("loader", "wall").rows()
    assert fetches == [(None, 6 * MS), (0, 138 * MS), (1, 7 * MS)]


def test_a_loader_without_workers_has_stages_only() -> None:
    synth = Synth()
    span(synth, "fetch", 0, 8, cpu=8)
    assert loader_stages(synth.run()).select("where", "wall").rows() == [("main process", 8 * MS)]
    with pytest.raises(MissingData, match="workers"):
        loader_workers(synth.run())


def test_nothing_was_recorded() -> None:
    with pytest.raises(MissingData, match="times of data loading"):
        loader_stages(Synth().run())


def test_batches_that_lay_ready_and_batches_that_came_late() -> None:
    synth = Synth()
    for batch, (ready, requested) in enumerate([(12, 20), (30, 22)]):
        span(synth, "send index", batch, batch + 1, batch=batch)
        span(synth, "fetch", batch + 1, 10, worker=batch, batch=batch)
        span(synth, "send", 11, ready, worker=batch, batch=batch)
        span(synth, "wait", requested, requested + 10, batch=batch)
    span(synth, "wait", 40, 41, batch=2)  # its worker was not recorded
    assert [[value / MS for value in row] for row in loader_batches(synth.run()).select(
        "index_sent", "fetch_start", "fetch_end", "ready", "requested", "received", "late", "slack"
    ).rows()] == [[1, 1, 10, 12, 20, 30, 0, 8], [2, 2, 10, 30, 22, 32, 8, 0]]  # fmt: skip


def waits(lengths: list[int], workers: int) -> Synth:
    """A loader with these waits in ms, one after another."""
    synth, now = Synth(), 0
    for worker in range(workers):
        span(synth, "fetch", 0, 1, worker=worker)
    for batch, length in enumerate(lengths):
        span(synth, "wait", now, now + length, batch=batch)
        now += length + 10
    return synth


def test_every_third_batch_stalls_with_three_workers() -> None:
    run = waits([900, *(40 if batch % 3 == 0 else 0 for batch in range(1, 40))], workers=3).run()
    assert stall_pattern(run).rows() == [(0, 0, 3, 40, 14, 3, 1.0, (900 + 13 * 40) / 14 * MS, 1.0)]


def test_waits_without_a_period() -> None:
    run = waits([40 if batch in (1, 2, 7, 9, 20, 21, 33) else 1 for batch in range(40)], workers=2).run()
    assert stall_pattern(run).select("period", "regular").rows() == [(1, 1 / 3)]
    for calm in (waits([0] * 40, workers=2), waits([40, 0, 40], workers=2), waits([40, 0] * 20, workers=1)):
        with pytest.raises(MissingData, match="stalls"):
            stall_pattern(calm.run())


def test_a_transform_is_charged_without_the_decoding_inside_it() -> None:
    synth = Synth()
    span(synth, "fetch", 0, 100, worker=0, cpu=100, weight=2)
    span(synth, "sample", 0, 80, worker=0, cpu=80, weight=2, name="Pictures")
    span(synth, "transform", 10, 70, worker=0, cpu=60, weight=2, name="Crop")
    span(synth, "decode", 20, 60, worker=0, cpu=40, weight=2, name="PIL")
    span(synth, "collate", 80, 90, worker=0, cpu=10, weight=2, name="collate")
    span(synth, "transform", 0, 80, worker=1, cpu=80, name="Crop")  # at the same time in another process
    rows = loader_transforms(synth.run()).select("stage", "count", "wall", "own", "share").rows()
    assert rows == [
        ("transform", 3, 200 * MS, 120 * MS, 0.6), ("decode", 2, 80 * MS, 80 * MS, 0.4),
        ("sample", 2, 160 * MS, 40 * MS, 0.2), ("collate", 2, 20 * MS, 20 * MS, 0.1),
    ]  # fmt: skip


def test_shares_are_of_the_fetches_whose_samples_were_recorded() -> None:
    """Of the second fetch, which stands for nine, only the collation was."""
    synth = Synth()
    span(synth, "fetch", 0, 100, worker=0, cpu=100, batch=0)
    span(synth, "sample", 0, 80, worker=0, cpu=80, batch=0, name="Pictures")
    for batch, weight in ((0, 1), (2, 9)):
        span(
            synth, "collate", 100 * batch + 80, 100 * batch + 90, worker=0, cpu=10, batch=batch, weight=weight, name="c"
        )
    span(synth, "fetch", 200, 300, worker=0, cpu=100, batch=2, weight=9)
    rows = loader_transforms(synth.run()).select("stage", "count", "own", "share").rows()
    assert rows == [("collate", 10, 100 * MS, 0.1), ("sample", 1, 80 * MS, 0.8)]


@pytest.mark.parametrize(
    ("requested", "late_in", "late_duration"),
    [
        (5, "fetch", 20),
        (15, "fetch", 15),
        (28, "put", 4),
        (33, "serialize", 3),
        (37, "send", 2),
        (-90, "before fetch", 100),
    ],
)
def test_what_a_late_batch_was_late_in(requested: int, late_in: str, late_duration: int) -> None:
    synth = Synth()
    for stage, start, end in (("fetch", 10, 30), ("serialize", 34, 37), ("send", 37, 39)):
        span(synth, stage, start, end, worker=0)
    span(synth, "wait", requested, 50)
    (row,) = loader_batches(synth.run()).select("late", "late_in", "late_duration").rows()
    assert row == ((39 - requested) * MS, late_in, late_duration * MS)


def test_a_batch_that_was_ready_or_not_recorded_whole_was_late_in_nothing() -> None:
    synth = Synth()
    for batch, requested in enumerate((60, 5)):
        span(synth, "fetch", 10, 30, worker=0, batch=batch)
        span(synth, "send", 35, 37, worker=0, batch=batch)
        span(synth, "wait", requested, 70, batch=batch)
    span(synth, "serialize", 32, 35, worker=0, batch=0)
    assert loader_batches(synth.run()).select("late_in", "late_duration").rows() == [(None, None), (None, None)]


def started(synth: Synth, iterator: int, at: int) -> None:
    """Two workers are started, make batches of 10 ms after one of 30, and end."""
    span(synth, "start workers", at, at + 20, iterator=iterator, batch=None)
    for worker, began in enumerate((at + 5, at + 15)):
        who: dict[str, int] = {"worker": worker, "iterator": iterator}
        span(synth, "start", began, began + 4, cpu=3, batch=None, **who)
        span(synth, "set up", began + 4, began + 6, batch=None, **who)
        for batch, (begin, end) in enumerate(((6, 36), (40, 50), (60, 70))):
            span(synth, "fetch", began + begin, began + end, batch=2 * batch + worker, **who)
        span(synth, "end", at + 105 + worker, at + 105 + worker, batch=None, **who)
    span(synth, "wait", at + 30, at + 45, iterator=iterator)
    span(synth, "wait", at + 46, at + 100, iterator=iterator, batch=1)
    span(synth, "stop workers", at + 100, at + 110, iterator=iterator, batch=None)


def test_the_life_of_workers_that_are_started_in_each_epoch() -> None:
    synth = Synth()
    for epoch in range(2):
        started(synth, epoch + 1, 1000 * epoch)
    span(synth, "fetch", 0, 10)  # a loader without workers
    table = loader_starts(synth.run())
    assert table.select("iterator", "worker", pl.col("start_begin") // MS).rows() == [
        (1, 0, 0), (1, 1, 0), (2, 0, 1000), (2, 1, 1000),
    ]  # fmt: skip
    row = {
        name: value / MS
        for name, value in table.drop("rank", "loader", "iterator", "worker").row(1, named=True).items()
    }
    assert row == {
        "start_begin": 0, "queued": 15, "starting": 4, "starting_cpu": 3, "setting_up": 2, "first_fetch": 30,
        "later_fetch": 10, "waited": 20 + 15 + 5, "waited_start": 20, "ending": 6, "ended": 10,
    }  # fmt: skip


def test_a_worker_that_was_killed_before_it_made_a_batch() -> None:
    synth = Synth()
    span(synth, "start workers", 0, 20, batch=None)
    span(synth, "set up", 10, 12, worker=0, batch=None)
    (row,) = loader_starts(synth.run()).rows(named=True)
    assert {name for name, value in row.items() if value is None} == {
        "queued", "starting", "starting_cpu", "first_fetch", "later_fetch", "waited", "waited_start", "ending", "ended",
    }  # fmt: skip
    with pytest.raises(MissingData, match="starts"):
        loader_starts(two_workers().run())
