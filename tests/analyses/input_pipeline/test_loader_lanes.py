"""What workers and the process that trains do at each moment."""

from typing import Any

import pytest

from stepscope.analyses.input_pipeline.loader_lanes import loader_lanes
from stepscope.core.errors import MissingData
from stepscope.core.synth import MS, Synth

from ...report.sections.input_pipeline.test_input_pipeline_section import span


def lanes(synth: Synth) -> dict[int | None, list[tuple[str, int, int]]]:
    """Stretches of each worker, in ms."""
    found: dict[int | None, list[tuple[str, int, int]]] = {}
    for worker, state, start, end in loader_lanes(synth.run()).select("worker", "state", "start", "end").iter_rows():
        found.setdefault(worker, []).append((state, start // MS, end // MS))
    return found


def one_worker(batches: int = 5, **fetch: Any) -> Synth:
    """A worker that makes a batch in 60 of each 100 ms; training waits for the first 30 of them."""
    synth = Synth()
    for batch in range(batches):
        at = 100 * batch
        span(synth, "wait", at, at + 30, None, batch)
        span(synth, "index wait", at - 40, at, 0, batch)
        span(synth, "fetch", at, at + 50, 0, batch, **fetch)
        span(synth, "put", at + 50, at + 60, 0, batch)
        span(synth, "serialize", at + 55, at + 70, 0, batch)
    return synth


def test_each_moment_of_a_worker_is_told_once() -> None:
    found = lanes(one_worker(cpu=40 * MS, core_wait=5 * MS))
    assert found[None][:2] == [("data wait", 0, 30), ("training", 30, 100)]
    assert found[0][:4] == [
        ("computing", 0, 50),
        ("enqueueing", 50, 60),
        ("sending", 60, 70),
        ("idle, queue full", 70, 100),
    ]
    assert found[0][-1] == ("computing", 400, 430)  # the last wait ends what is looked at


@pytest.mark.parametrize(
    ("figures", "state"),
    [
        ({}, "fetching"),
        ({"cpu": MS, "core_wait": 40 * MS}, "waiting for a core"),
        ({"cpu": MS, "core_wait": MS}, "blocked"),
    ],
)
def test_a_fetch_is_what_most_of_it_was(figures: dict[str, Any], state: str) -> None:
    assert lanes(one_worker(**figures))[0][0][0] == state


def test_a_worker_without_work_starves_while_training_waits() -> None:
    synth = one_worker()
    for batch in range(5):
        span(synth, "index wait", 100 * batch, 100 * batch + 90, 1, batch)
    assert lanes(synth)[1][:2] == [("idle, out of order", 0, 30), ("idle, queue full", 30, 90)]


def test_a_few_batches_are_looked_at_in_the_middle_of_those_that_were_all_recorded() -> None:
    synth = one_worker(40)
    span(synth, "wait", 9000, 9001, None, 90)
    training = lanes(synth)[None]
    assert (training[0][1], training[-1][2]) == (1400, 2600)


def test_too_few_batches_in_a_row_are_no_picture() -> None:
    with pytest.raises(MissingData, match="4 batches of workers"):
        loader_lanes(one_worker(3).run())
