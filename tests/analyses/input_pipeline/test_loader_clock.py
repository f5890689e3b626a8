"""Spans of workers, of the training process and of traces on one time line: how well they fit."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyses.input_pipeline.loader_clock import loader_clock
from stepscope.analyses.lib.wall_clock import Offset, Reading, offset_at
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import Synth

COLUMNS = ("clock", "loader", "offset", "error", "checked", "violations", "low", "high", "batch")
CALL = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
MS = 1_000_000


def span(synth: Synth, stage: str, start: int, end: int, *, worker: int | None = None, batch: int = 0) -> None:
    """A span of loader 3, times in ms."""
    synth.add(
        "loader_spans", pid="1" if worker is None else "9", worker=worker, loader=3, iterator=1, epoch=0, batch=batch,
        stage=stage, start=start * MS, end=end * MS, weight=1, failed=False,
    )  # fmt: skip


def a_batch(synth: Synth, batch: int, at: int, *, late: int = 0) -> None:
    """Sent in the first ms of 20, taken in the fourth, serialized until the tenth, received in the twelfth.

    The clock of the worker is late by so many ms.
    """
    span(synth, "send index", at, at + 1, batch=batch)
    span(synth, "index wait", at - late, at + 4 - late, worker=0, batch=batch)
    span(synth, "serialize", at + 8 - late, at + 10 - late, worker=0, batch=batch)
    span(synth, "receive", at + 12, at + 13, batch=batch)


def rows(run: Run) -> list[tuple[object, ...]]:
    return loader_clock(run).select(COLUMNS).rows()


def test_what_could_be_added_to_the_times_of_a_worker() -> None:
    synth = Synth()
    a_batch(synth, 0, 100)
    a_batch(synth, 1, 200)
    span(synth, "receive", 215, 216, batch=2)  # what the worker did with it was not recorded
    assert rows(synth.run()) == [("worker 0", 3, 0, None, 4, 0, -4 * MS, 2 * MS, None)]


def test_effects_before_their_cause_are_counted() -> None:
    synth = Synth()
    a_batch(synth, 0, 100)
    a_batch(synth, 1, 200, late=5)  # indices taken 1 ms before they were sent
    a_batch(synth, 2, 300, late=7)
    assert rows(synth.run()) == [("worker 0", 3, 0, None, 6, 2, 3 * MS, 2 * MS, 2)]
    synth = Synth()
    a_batch(synth, 0, 100, late=-3)  # received before it was serialized
    assert rows(synth.run()) == [("worker 0", 3, 0, None, 2, 1, -7 * MS, -1 * MS, 0)]


def traced(*, offset: int) -> Synth:
    """A window from 100 to 200 ms whose trace reads 7 ms more, or so it is said; waits lie 1 ms inside their calls."""
    synth = Synth()
    for time, wall in ((0, 0), (100, offset), (200, offset)):
        source = "window 0" if time else "start"
        synth.add("clock_readings", source=source, time=time * MS, offset=wall * MS, error=50)
    for batch, at in enumerate((90, 110, 150, 190)):  # the first began before the window
        span(synth, "wait", at + 1, at + 12, batch=batch)
        synth.host(CALL, "annotation", at + 7, at + 7 + 14)
    return synth


def test_waits_lie_inside_the_calls_of_a_trace() -> None:
    assert rows(traced(offset=7).run()) == [("window 0", None, 7 * MS, 50, 2, 0, -2 * MS, 1 * MS, None)]


def test_waits_outside_the_calls_of_a_trace_are_counted() -> None:
    assert rows(traced(offset=10).run()) == [("window 0", None, 10 * MS, 50, 2, 2, 1 * MS, 4 * MS, 1)]


def test_a_run_without_spans_or_without_workers_is_told() -> None:
    with pytest.raises(MissingData, match="times of data loading"):
        loader_clock(Synth().step(0, 0, 1).run())
    synth = Synth()
    span(synth, "fetch", 0, 1)
    with pytest.raises(MissingData, match="workers"):
        loader_clock(synth.run())


def test_between_two_readings_the_offset_is_on_the_line() -> None:
    readings = [Reading(100, 10, 3), Reading(200, 30, 5)]
    assert offset_at(readings, 100) == Offset(10, 25)
    assert offset_at(readings, 150) == Offset(20, 25)
    assert offset_at(readings, 50) == Offset(10, 3)
    assert offset_at(readings, 250) == Offset(30, 5)
    assert offset_at([Reading(100, 10, None), *readings[1:]], 150) == Offset(20, None)
    assert offset_at([], 150) is None


@given(
    moves=st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 10**10)), min_size=2, max_size=6),
    errors=st.lists(st.integers(0, 10**6), min_size=6, max_size=6),
    off=st.lists(st.floats(-1, 1), min_size=6, max_size=6),
    back=st.booleans(),
    at=st.floats(0, 1, exclude_max=True),  # at the next reading it has moved
    how=st.floats(0, 1),
)
def test_the_clock_is_never_further_off_than_is_told(
    moves: list[tuple[int, int]], errors: list[int], off: list[float], back: bool, at: float, how: float
) -> None:
    """A wall clock that goes one way between readings, at once or slowly, and readings that are off by their error."""
    times, truths, time, truth = [], [], 0, 0
    for passed, moved in moves:
        time, truth = time + passed, truth + (-moved if back else moved)
        times.append(time)
        truths.append(truth)
    readings = [
        Reading(time, truth + round(error * part), error)
        for time, truth, error, part in zip(times, truths, errors, off, strict=False)
    ]
    place = min(int(at * (len(times) - 1)), len(times) - 2)
    asked = times[place] + int((times[place + 1] - times[place]) * at)
    actual = truths[place] + (truths[place + 1] - truths[place]) * how  # anywhere between what it was and will be
    found = offset_at(readings, asked)
    assert found is not None and found.error is not None
    assert abs(found.offset - actual) <= found.error + 1  # whole ns


def test_ranks_are_apart() -> None:
    synth = Synth()
    a_batch(synth, 0, 100)
    run = synth.run()
    spans = run.optional("loader_spans")
    second = spans.with_columns(rank=pl.lit(1, pl.Int32))
    both = loader_clock(Run({"loader_spans": pl.concat([second, spans])}))
    assert both["rank"].to_list() == [0, 1]
    assert both.drop("rank").rows()[0] == both.drop("rank").rows()[1]
