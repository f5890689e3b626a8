"""From span to span by keyboard: along the lane, out and in; at an end it stays."""

import pytest

from stepscope.core.synth import MS, Synth
from stepscope.timeline import Ref
from stepscope.timeline.navigation import moved


@pytest.mark.parametrize(
    ("way", "lane", "start"),
    [("next", 1, 6), ("previous", 1, 2), ("out", 0, 0), ("in", 2, 4.5), ("", 1, 4)],
)
def test_a_move_finds_the_neighbor(way: str, lane: int, start: float) -> None:
    synth = Synth().host("outer", "operator", 0, 10)
    for at in (2, 4, 6):
        synth.host("inner", "operator", at, at + 1)
    run = synth.host("leaf", "operator", 4.5, 4.6).run()
    assert moved(run, Ref("host:0:1:1", 1, 4 * MS), way) == Ref("host:0:1:1", lane, round(start * MS))


@pytest.mark.parametrize("way", ["next", "previous", "out", "in"])
def test_at_an_end_it_stays(way: str) -> None:
    run = Synth().host("alone", "operator", 0, 10).run()
    assert moved(run, Ref("host:0:1:1", 0, 0), way) == Ref("host:0:1:1", 0, 0)


def test_a_span_that_there_is_not_is_refused() -> None:
    with pytest.raises(KeyError):
        moved(Synth().host("alone", "operator", 0, 10).run(), Ref("host:0:1:1", 0, 5), "next")
